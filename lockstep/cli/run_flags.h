// What every command that takes a RUN.toml shares: its file, --set, and how many ranks.
#pragma once
#include "lockstep/cli/command.h"
#include "lockstep/config/run_config.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::cli {

inline constexpr Flag kSetFlag{.name = "--set",
                               .value = "KEY=VALUE",
                               .help = "override a key of RUN.toml, as in optimizer.lr=0.05",
                               .repeats = true};

inline constexpr Flag kNprocFlag{
    .name = "--nproc-per-node",
    .value = "N",
    .help =
        "ranks on this host, or auto (cpu): as many as its cores carry; default parallel.data or 1",
    .type = ValueType::integer,
    .words = "auto|cpu",
    .minimum = 1,
    .maximum = 65536};

/// The configuration of RUN.toml (the defaults when no file was named) after --set.
/// \throws UsageError with every problem.
[[nodiscard]] config::RunConfig read_run(const Args& args);

/// The ranks that --nproc-per-node asks for on `host`.
[[nodiscard]] int ranks_of(const Args& args, const config::RunConfig& config, const Host& host);

}  // namespace lockstep::cli
