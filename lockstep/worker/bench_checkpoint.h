// One rank of `lockstep bench checkpoint`: saves and loads a state and reports how long it took.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/config/starter.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

/// \param args its job_file is a checkpoint::BenchRequest. Rank 0 writes checkpoint::BenchSample
/// lines to the report descriptor, or to standard output without one. \throws Error.
[[nodiscard]] Exit run_bench_checkpoint(const RankArgs& args, const config::RankEnv& env);

}  // namespace lockstep::worker
