// The front of `lockstep launch` on one host: flags to settings, the job, and its end for people.
#pragma once
#include "lockstep/cli/command.h"
#include "lockstep/launch/launch_options.h"

namespace lockstep::cli {

/// What the flags and the environment ask for, with every problem.
[[nodiscard]] launch::ReadLaunch read_launch(const Args& args, const Context& context);

/// Runs the job. \returns the exit code of docs/cli.md. \throws UsageError, EnvironmentFault before
/// ranks are started; with --json Error for ranks that failed.
[[nodiscard]] Exit run_launch(const Args& args, const Context& context);

}  // namespace lockstep::cli
