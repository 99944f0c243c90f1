// The front of a training run on this host: plan, run directory, ranks, progress, summary.
#pragma once
#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// Plans and trains as `args` of `lockstep train` say, and shows it. \returns the exit code of
/// docs/cli.md. \throws UsageError, EnvironmentFault before the ranks are started.
[[nodiscard]] Exit run_front(const Args& args, const Context& context);

}  // namespace lockstep::cli
