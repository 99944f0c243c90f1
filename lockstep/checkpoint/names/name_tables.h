// The tables of the families; name_map.cpp lists them.
#pragma once
#include "lockstep/checkpoint/names/name_map.h"

namespace lockstep::checkpoint {

inline constexpr bool kNeeded = true;
inline constexpr bool kOptional = false;

[[nodiscard]] const NameMap& gpt2_names();
[[nodiscard]] const NameMap& llama_names();
[[nodiscard]] const NameMap& bert_names();
[[nodiscard]] const NameMap& resnet_names();
[[nodiscard]] const NameMap& torchvision_resnet_names();

}  // namespace lockstep::checkpoint
