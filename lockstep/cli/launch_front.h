// The front of a launcher: flags to settings, the job, and its end for people. `lockstep launch` is
// it, and `lockstep train` where it has to start ranks again or on several hosts.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/launch/launch_options.h"

namespace lockstep::cli {

/// What is to be launched. Left as it is, the program of `lockstep launch`.
struct LaunchJob {
  launch::ReadLaunch read;  // without problems
  std::string name;         // for people; empty = the program's
  /// What must be equal on all hosts beside lockstep itself, by field.
  std::map<std::string, std::string> equal;
  /// As launch::AgentSettings has it.
  std::function<std::vector<std::string>(bool was_first)> argv_again;
  bool is_training = false;  // with --json the run's summary is the document

  // With --hosts: the launcher of a host is "lockstep COMMAND --nproc-per-node N FLAGS WORDS".
  std::string command = "launch";
  std::vector<std::string> words;
  std::string ranks_of_host = "1";  // where neither --nproc-per-node nor the host list says it
};

/// What the flags and the environment ask for, with every problem. \param program of the ranks.
/// \param given flags with other values than in `args`.
[[nodiscard]] launch::ReadLaunch read_launch(const Args& args, const Context& context,
                                             std::vector<std::string> program,
                                             const std::map<std::string, std::string>& given = {});

/// Runs the job, or prints it with --dry-run. \returns the exit code of docs/cli.md. \throws
/// UsageError, EnvironmentFault before ranks are started; with --json Error for ranks that failed.
[[nodiscard]] Exit run_launch(LaunchJob job, const Args& args, const Context& context);

/// Tells of ranks that an earlier job has left on this machine.
void note_leftovers(const Context& context);

}  // namespace lockstep::cli
