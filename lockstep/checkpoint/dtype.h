// LibTorch's element types by their safetensors names.
#pragma once
#include <c10/core/ScalarType.h>

#include <string>

namespace lockstep::checkpoint {

/// "F32" for at::kFloat. A type that safetensors lacks is a Bug.
[[nodiscard]] std::string dtype_name(at::ScalarType type);

}  // namespace lockstep::checkpoint
