// The JSON of a safetensors header, read without a document in memory: 1.3 million tensors take
// about 0.3 GB, the text aside.
#pragma once
#include <string>
#include <string_view>

#include "lockstep/checkpoint/format/safetensors.h"

namespace lockstep::checkpoint {

inline constexpr const char* kMetadataKey = "__metadata__";

/// Tensors in the order of the text, each with a size that is that of its range; where the ranges
/// lie is not looked at, and data_start is 0. \throws BadData (LS-5004).
[[nodiscard]] SafetensorsHeader parse_header_json(std::string_view text, const std::string& where);

}  // namespace lockstep::checkpoint
