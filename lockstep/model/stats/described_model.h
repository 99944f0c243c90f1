// A model as the command line gives it, and in a sentence for people.
#pragma once
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/stats/architecture.h"

namespace lockstep::model {

struct DescribedModel {
  Architecture architecture;
  std::string stored_type;               // dtype, "bfloat16"; empty where it is not given
  std::vector<std::string> assumptions;  // sentences: what was not given, or is not modelled
};

/// What `--model` or model.config names: a file that is there, a folder with a config.json, or else
/// a known model. \param where it was named, for messages. \throws UsageError as read_hugging_face
/// and known_model; LS-1001 for a file that is not readable.
[[nodiscard]] DescribedModel described_model(const std::string& name,
                                             const std::string& where = "--model");

/// Why a run cannot be trained whose model is described (model.config): LS-6026, or what
/// described_model throws. Empty where it is not.
[[nodiscard]] std::vector<Problem> check_trainable(const config::ModelSection& config);

/// The keys of [model] that build the same network here: `family = "gpt"`, `layers = 12`, ...; none
/// where no family does.
[[nodiscard]] std::vector<std::string> keys_that_build(const Architecture& architecture);

/// "32 layers, 4,096 wide, 32 heads with 8 of keys and values, feed-forward 14,336, vocabulary
/// 128,256".
[[nodiscard]] std::string in_words(const Architecture& architecture);

}  // namespace lockstep::model
