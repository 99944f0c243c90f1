// The folder a run leaves its files in.
#pragma once
#include <filesystem>
#include <string>

namespace lockstep {

/// Makes `wanted` with its parents, or when empty a new folder "runs/<name>-<UTC yyyymmdd-hhmmss>"
/// (a number is added while that exists) in the working directory. \throws EnvironmentFault.
[[nodiscard]] std::filesystem::path make_run_dir(const std::string& wanted,
                                                 const std::string& name);

}  // namespace lockstep
