// A run directory that has been used before: an earlier run's files step aside, so that the newest
// checkpoint is always one of the run that trains, and a new job's files appear when it is sure to
// start.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/planner/job.h"

namespace lockstep::rundir {

/// What a job goes on from.
struct StartPoint {
  std::optional<std::filesystem::path> checkpoint;  // nothing: from the start
  std::int64_t step = 0;
};

/// Moves what does not belong to the run from `start` on into a new RUN_DIR/previous-N: everything
/// when the run starts anew or comes from another folder, else the checkpoints of later steps (and
/// a copy of events.jsonl, which will be cut). \returns a sentence for people about each move.
/// \throws EnvironmentFault (LS-3051).
std::vector<std::string> set_aside_earlier(const planner::Job& job, const StartPoint& start);

/// Writes config.json (with the micro-batch that was found) and plan.json to the run directory,
/// each whole or not at all.
/// \throws EnvironmentFault (LS-3051).
void write_job_files(const planner::Job& job);

}  // namespace lockstep::rundir
