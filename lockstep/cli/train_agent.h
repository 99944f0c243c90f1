// `lockstep train` as a launcher: of one of several hosts, or of ranks that are started again.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/cli/launch_front.h"

namespace lockstep::cli {

/// The job that starts ranks of `args` of `lockstep train` by the rules of `lockstep launch`;
/// nothing where neither a flag of a launch nor the environment asks for that: then the front on
/// this host does. \throws UsageError with every problem of flags and configuration.
[[nodiscard]] std::optional<LaunchJob> read_train_launch(const Args& args, const Context& context);

/// The command of a rank of such a job. \param resume in place of --resume of `args`.
[[nodiscard]] std::vector<std::string> rank_command(const Args& args, const Context& context,
                                                    const std::string& run_dir,
                                                    const std::string& resume);

}  // namespace lockstep::cli
