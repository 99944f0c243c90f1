// batch.micro_batch = "auto" settled for a job: as the run has it that goes on, as an earlier run
// found it on this machine, or as predicted. And what a run found, kept for later ones.
#pragma once
#include <cstdint>

#include "lockstep/planner/job.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::rundir {

/// Gives `job` its search, and the plan that comes of it; leaves a job alone whose micro-batch is a
/// number. \param job with the plan of planner::make_plan(); run_dir as the user gave it, maybe
/// empty; check_start() has taken it. \param data_bytes as for make_plan().
void settle_micro_batch(planner::Job& job, const Host& host, std::int64_t data_bytes);

struct FoundBatch {
  std::int64_t micro_batch = 0;
  double samples_per_s = 0;       // over all ranks; 0 = not measured
  std::int64_t needed_bytes = 0;  // of the fullest rank; 0 = not measured
};

/// Keeps what a run found in the file that job.search names, whole or not at all. \throws
/// EnvironmentFault (LS-3051).
void remember_micro_batch(const planner::Job& job, const FoundBatch& found);

}  // namespace lockstep::rundir
