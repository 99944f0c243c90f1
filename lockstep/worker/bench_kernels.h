// One rank of `lockstep bench kernels`: times the worker's operators on its core.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/config/starter.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

/// All ranks time the same points at the same moments. Rank 0 writes lockstep::to_json_text() of
/// each point to the report descriptor, or to standard output without one. \param args its job_file
/// is a KernelRequest. \throws Error.
[[nodiscard]] Exit run_bench_kernels(const RankArgs& args, const config::RankEnv& env);

}  // namespace lockstep::worker
