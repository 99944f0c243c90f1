// Where a rank's job comes from: the front's file, or RUN.toml read by the printing rank.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/engine/values/run_summary.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/run_lock.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

struct Assignment {
  planner::Job job;
  bool is_done = false;  // it would only repeat a finished run
  // Of the printing rank, when no front is there:
  std::vector<rundir::RunLock> locks;
  std::optional<engine::RunSummary> finished;
  std::vector<std::string> notes;  // what was taken otherwise than RUN.toml says
};

/// Collective. With --job every rank reads the file; otherwise the printing rank loads the
/// configuration, plans, checks what the job would go on from, makes and locks the run directory,
/// and broadcasts. \throws Error on every rank when it fails on the printing rank; `is_echo` tells
/// whose it was.
[[nodiscard]] Assignment obtain_job(const RankArgs& args, comm::Group& world);

/// True for the error that other ranks throw because the printing rank failed: not to be printed
/// again.
[[nodiscard]] bool is_echo(const Error& error);

}  // namespace lockstep::worker
