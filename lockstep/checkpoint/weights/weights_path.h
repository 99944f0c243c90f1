// What a user names weights by.
#pragma once
#include <filesystem>
#include <string>

#include "lockstep/checkpoint/tools/tags.h"

namespace lockstep::checkpoint {

/// The file or folder: `named` itself where it is there, else what the tag of that name stands for,
/// else `named`, of which open_checkpoint() then says what is wrong.
/// \throws BadData (LS-5004) for a tag that is damaged; EnvironmentFault (LS-5002).
[[nodiscard]] std::filesystem::path weights_path(const std::string& named, const TagRegistry& tags);

}  // namespace lockstep::checkpoint
