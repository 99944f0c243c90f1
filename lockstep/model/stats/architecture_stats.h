// Statistics of an architecture: parameters tensor by tensor, operators block by block.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture.h"
#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

/// \param sequence tokens of a sample; 0 = what the architecture says. An encoder_decoder has as
/// many on either side. Of BlockStats the amounts for our own worker alone stay 0
/// (between_temporary_elements, widened_elements); kept are the sums over operators, with attention
/// in parts (no flash).
/// \pre check_architecture finds nothing.
[[nodiscard]] ModelStats architecture_stats(const Architecture& architecture,
                                            std::int64_t sequence = 0);

/// Sizes that are missing, do not fit each other or are beyond all reason.
[[nodiscard]] std::vector<Problem> check_architecture(const Architecture& architecture);

/// The same network in words of a paper. \param sequence rows of the table of positions (gpt).
[[nodiscard]] Architecture architecture_of(const config::ModelSection& config,
                                           std::int64_t sequence);

/// "decoder", "resnet", ...
[[nodiscard]] std::string_view to_text(ArchitectureKind kind);

}  // namespace lockstep::model
