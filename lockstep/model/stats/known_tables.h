// The tables that known_models() is made of, by kind of network.
#pragma once
#include <vector>

#include "lockstep/model/stats/known_models.h"

namespace lockstep::model {

void append_gpt_models(std::vector<KnownModel>& models);
void append_llama_models(std::vector<KnownModel>& models);
void append_other_models(std::vector<KnownModel>& models);

}  // namespace lockstep::model
