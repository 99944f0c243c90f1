// Where a job may start: from which checkpoint, or not at all because the run is done or the
// checkpoint is of another model. Reads only; the front and a printing rank ask before any rank
// trains.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/engine/values/run_summary.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/resume_changes.h"

namespace lockstep::rundir {

/// Of what a run says that was stopped on request before it could report its end.
inline constexpr const char* kStoppedCode = "LS-7057";

/// RUN_DIR/checkpoints, or what checkpoint.dir says.
[[nodiscard]] std::filesystem::path checkpoints_dir(const planner::Job& job);

/// The folder that --resume names: a tag below checkpoints_dir(), or a path. \throws UsageError
/// (LS-1001, LS-5003) with the reason when there is none.
[[nodiscard]] std::filesystem::path named_checkpoint(const planner::Job& job);

/// What differs between `job` and the run that saved `manifest`; ranks only once the job has a
/// plan.
[[nodiscard]] std::vector<ResumeChange> changes_since(const planner::Job& job,
                                                      const checkpoint::Manifest& manifest);

/// A folder's name that cannot stand in JSON. \param flag that gave it.
[[nodiscard]] std::vector<Problem> name_problems(const std::string& flag, const std::string& name);

/// Refuses a job whose --resume or run directory cannot be used. `job.run_dir` is as the user gave
/// it and may be empty. \throws UsageError with every problem.
void check_start(const planner::Job& job);

/// The summary of a run that this job would only repeat: the same configuration, trained to its
/// end, and nothing else asked for by --resume.
[[nodiscard]] std::optional<engine::RunSummary> finished_summary(const planner::Job& job);

/// What is said to whoever asks for a run that is done.
[[nodiscard]] std::string already_done_text();

/// RUN_DIR/summary.json; nothing when there is none that can be read.
[[nodiscard]] std::optional<engine::RunSummary> read_summary(const std::filesystem::path& run_dir);

}  // namespace lockstep::rundir
