// One rank of `lockstep bench comm`: times collectives and reports them to the front.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/config/starter.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

/// \param args its job_file is a bench::Request. Rank 0 writes bench::Report lines to the report
/// descriptor, or to standard output without one. \throws Error.
[[nodiscard]] Exit run_bench_comm(const RankArgs& args, const config::RankEnv& env);

}  // namespace lockstep::worker
