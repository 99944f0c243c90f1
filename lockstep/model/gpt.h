// Decoder-only transformer (Radford et al. 2019): pre-norm blocks, learned positions, tied head.
#pragma once
#include <memory>

#include "lockstep/model/init.h"
#include "lockstep/model/model.h"

namespace lockstep::model {

/// Blocks "embed", "blocks.<i>" and "head"; "head.wte.weight" is "embed.wte.weight".
/// \param seq_len positions that can be embedded: the longest sequence.
[[nodiscard]] std::unique_ptr<Model> make_gpt(const config::ModelSection& config,
                                              std::int64_t seq_len, Initializer& init);

}  // namespace lockstep::model
