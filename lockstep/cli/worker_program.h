// lockstep-worker as the front starts it, and what it says when it fails.
#pragma once
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// The lockstep-worker beside this program. \throws EnvironmentFault when it is not there.
[[nodiscard]] std::string find_worker(const Context& context);

/// The arguments of `lockstep-worker train` for a rank that somebody else started: all flags
/// of `lockstep train` but those of the front alone.
[[nodiscard]] std::vector<std::string> rank_arguments(const std::string& worker, const Args& args);

/// Becomes the worker. \throws EnvironmentFault when it cannot be started; otherwise does not
/// return.
[[noreturn]] void become_worker(const std::vector<std::string>& argv);

/// The problems in the last {"errors":[...]} line of what a worker printed (it is started with
/// --json); empty when there is none.
[[nodiscard]] std::vector<Problem> problems_of_worker(const std::string& printed);

}  // namespace lockstep::cli
