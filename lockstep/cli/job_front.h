// A job of this host as its front sees it: what `train` and `bench` share.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/metrics/console.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/run_lock.h"

namespace lockstep::cli {

/// A run directory, and a folder of checkpoints, that are this job's own while this lives.
struct JobDir {
  std::vector<rundir::RunLock> locks;
  std::string log_dir;   // of this start: RUN_DIR/logs/N
  std::string job_file;  // what its ranks are handed
};

/// Makes the run directory (`wanted`, or a new one under runs/ when empty), names it in `job`,
/// locks it (and checkpoint.dir) and leaves the job in a new folder of logs. config.json and
/// plan.json are written by the printing rank, when nothing can refuse the start any more.
/// \throws UsageError (in use), EnvironmentFault.
[[nodiscard]] JobDir make_job_dir(planner::Job& job, const std::string& wanted);

/// What a later start in the run directory would go on from: the newest checkpoint of `job`
/// ("step-100"). Nothing when there is none.
struct ResumePoint {
  std::string name;
  std::int64_t step = 0;
};
[[nodiscard]] std::optional<ResumePoint> resume_point(const planner::Job& job);

/// The command of every rank that is handed `job_file`. Its errors come back as JSON, to be shown
/// in the form that was asked for here.
[[nodiscard]] std::vector<std::string> worker_command(const std::string& worker,
                                                      const std::string& job_file);

/// Where to read more: "all that the ranks printed is in LOG_DIR", unless somebody removed it.
[[nodiscard]] std::string place_of_logs(const std::string& log_dir);

/// Why a job ended badly: what its first failing rank said, or how that rank ended.
/// \param result has a first_failure. \param log_dir of its ranks, named in the fix.
[[nodiscard]] std::vector<Problem> problems_of_job(const launch::LocalJobResult& result,
                                                   const std::string& log_dir);

/// Ends a benchmark whose run on `ranks` ("2 ranks") did not end well, or not with all its results.
/// \throws Error with the run's own code where it has one, else 1.
[[noreturn]] void fail_bench(const std::string& ranks, const launch::LocalJobResult& result,
                             const std::string& log_dir);

/// As the terminal, colours, locale and flags say. With --json it is to draw on the error stream.
[[nodiscard]] metrics::ConsoleOptions console_options(const Context& context);

}  // namespace lockstep::cli
