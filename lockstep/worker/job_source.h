// Where a rank's job comes from: the front's file, or RUN.toml read by the printing rank.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/planner/job.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

/// Collective. With --job every rank reads the file; otherwise the printing rank loads the
/// configuration, plans, makes the run directory with config.json and plan.json, and broadcasts.
/// \throws Error on every rank when it fails on the printing rank; `is_echo` tells whose it was.
[[nodiscard]] planner::Job obtain_job(const RankArgs& args, comm::Group& world);

/// True for the error that other ranks throw because the printing rank failed: not to be printed
/// again.
[[nodiscard]] bool is_echo(const Error& error);

}  // namespace lockstep::worker
