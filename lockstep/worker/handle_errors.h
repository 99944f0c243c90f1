// The one handler of a rank: what went wrong as a message on stderr and an exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::worker {

/// Runs body(words); prints the problems of what it throws (as JSON with --json among the words)
/// and returns the exit code of docs/cli.md. LibTorch's errors become problems of a bug (70).
[[nodiscard]] Exit handle_errors(const std::vector<std::string>& words,
                                 const std::function<Exit(const std::vector<std::string>&)>& body);

}  // namespace lockstep::worker
