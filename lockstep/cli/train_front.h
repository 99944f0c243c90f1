// The front of a training run on this host: plan, run directory, ranks, progress, summary.
#pragma once
#include "lockstep/cli/command.h"
#include "lockstep/config/starter.h"

namespace lockstep::cli {

/// Plans and trains as `args` of `lockstep train` say, and shows it. \returns the exit code of
/// docs/cli.md. \throws UsageError, EnvironmentFault before the ranks are started.
[[nodiscard]] Exit run_front(const Args& args, const Context& context);

/// `lockstep train --dry-run` as one rank of somebody else's job: the plan, once for all ranks.
[[nodiscard]] Exit dry_run_as_rank(const Args& args, const Context& context,
                                   const config::RankEnv& env);

/// The command line that goes on in `run_dir` after `args` of `lockstep train` were interrupted,
/// for a shell.
/// \param keeps_resume whether --resume is still to be done.
[[nodiscard]] std::string command_to_go_on(const Args& args, const Context& context,
                                           const std::string& run_dir, bool keeps_resume = false);

}  // namespace lockstep::cli
