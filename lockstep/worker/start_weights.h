// The weights a run starts from: somebody's file instead of a fresh initialisation.
#pragma once
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/model/model.h"

namespace lockstep::worker {

/// Fills the parameters and floating-point buffers of a model that was just made from
/// model.weights, each rank by itself; nothing where that is empty. Files are what `lockstep ckpt`
/// reads; element types become fp32.
/// \returns notes for people: names and prefixes that were found out, what is left as it was.
/// \throws BadData (LS-5014) naming all that is missing or of another shape, and as
/// checkpoint::open_checkpoint(); the same on every rank that sees the same file.
[[nodiscard]] std::vector<std::string> load_start_weights(const config::RunConfig& config,
                                                          const model::Model& model);

}  // namespace lockstep::worker
