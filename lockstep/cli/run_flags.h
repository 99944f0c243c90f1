// What every command that takes a RUN.toml shares: its file, --set, and how many ranks.
#pragma once
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/run_config.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/rundir/run_check.h"
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
    .maximum = launch::kMostRanksOfAHost};

/// RUN.toml (the defaults when no file was named) after --set, with its problems.
/// \throws UsageError when the file cannot be read.
[[nodiscard]] config::ParsedConfig read_run(const Args& args);

/// The problems of RUN.toml and --set alone: Command::check_values of what takes them.
[[nodiscard]] std::vector<Problem> run_file_problems(const Args& args, const Context& context);

/// What was taken otherwise than the file says, for people.
void print_notes(const std::vector<std::string>& notes, const Context& context);

/// \param world_size of a job that somebody else started; 0 = as the flags say.
/// \param needs_data whether the data must be there: a plan does without.
/// \throws Error with every problem of keys, ranks, batch, model, strategy and data.
[[nodiscard]] rundir::CheckedRun check_run(const Args& args, const Context& context,
                                           const Host& host, int world_size, bool needs_data);

/// "4 ranks of 2 threads share 2 cores": empty where each thread has a core.
[[nodiscard]] std::string crowding_text(int ranks, int threads, int cores);

/// The ranks that --nproc-per-node asks for on `host`. \throws UsageError for more than a host
/// runs.
[[nodiscard]] int ranks_of(const Args& args, const config::RunConfig& config, const Host& host);

}  // namespace lockstep::cli
