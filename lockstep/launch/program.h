// The command of every rank, from SCRIPT or PROGRAM and the flags beside it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lockstep/launch/launch_options.h"

namespace lockstep::launch {

struct RankProgram {
  std::string name;                // of the job, for people: "train.py"
  std::vector<std::string> argv;   // of every rank, before local_rank_argv()
  std::size_t first_argument = 0;  // in argv: what follows the script
  bool is_ours = false;            // a program of lockstep: it keeps the exit codes of docs/cli.md
};

/// A .py file, a module, or a file that is not executable runs under $PYTHON_EXEC or python3 (with
/// -u, as under torchrun); an executable runs itself. \throws UsageError when the script does not
/// exist.
[[nodiscard]] RankProgram make_program(const LaunchOptions& options,
                                       const std::function<const char*(const char*)>& get_env);

/// The arguments of one rank: ${local_rank} in them has become its number, as under torchrun
/// (elastic/utils/api.py), and --pass-local-rank is done.
[[nodiscard]] std::vector<std::string> local_rank_argv(const RankProgram& program,
                                                       RankFlag pass_local_rank, int local_rank);

/// `pattern` with ${name} and $name replaced, "$$" as "$", all else as it is: Python's
/// string.Template.safe_substitute.
[[nodiscard]] std::string substituted(
    const std::string& pattern, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace lockstep::launch
