#include "lockstep/cli/job_front.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/terminal.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/rundir/start.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// One folder of logs per start: going on in a run directory keeps the logs of before.
fs::path new_log_folder(const fs::path& run_dir) {
  int number = 1;
  while (fs::exists(run_dir / "logs" / std::to_string(number))) ++number;
  const fs::path folder = run_dir / "logs" / std::to_string(number);
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return folder;
  throw EnvironmentFault({"LS-3005", folder.string(),
                          "the folder of logs cannot be made: " + error.message(),
                          "choose a writable place with --run-dir"});
}

}  // namespace

JobDir make_job_dir(planner::Job& job, const std::string& wanted) {
  const fs::path dir = make_run_dir(wanted, job.config.run.name);
  job.run_dir = dir.string();
  JobDir made{rundir::lock_folders(job), "", ""};
  made.log_dir = new_log_folder(dir).string();
  made.job_file = (fs::path(made.log_dir) / "job.json").string();
  metrics::write_whole_file(made.job_file, planner::to_json_text(job) + "\n");
  return made;
}

std::optional<ResumePoint> resume_point(const planner::Job& job) {
  const auto steps = checkpoint::complete_steps(rundir::checkpoints_dir(job));
  if (steps.empty()) return std::nullopt;
  return ResumePoint{steps.front().path.filename().string(), steps.front().step};
}

std::vector<std::string> worker_command(const std::string& worker, const std::string& job_file) {
  return {worker, "train", "--job", job_file, "--json"};
}

std::string place_of_logs(const std::string& log_dir) {
  std::error_code unknown;
  if (fs::exists(log_dir, unknown)) return "all that the ranks printed is in " + log_dir;
  return log_dir + " is gone, and with it what the ranks printed: was it removed during the run?";
}

std::vector<Problem> problems_of_job(const launch::LocalJobResult& result,
                                     const std::string& log_dir) {
  LOCKSTEP_CHECK(result.first_failure.has_value(), "a job without a failure was asked for it");
  std::vector<Problem> problems = problems_of_worker(result.first_failure->last_stderr);
  if (!problems.empty()) return problems;
  return {{"LS-3006", "rank " + std::to_string(result.first_failure->rank),
           launch::describe(result), place_of_logs(log_dir)}};
}

void fail_bench(const std::string& ranks, const launch::LocalJobResult& result,
                const std::string& log_dir) {
  const bool is_own = result.exit == Exit::ok || result.exit == Exit::requeue;
  std::vector<Problem> problems;
  if (result.first_failure) problems = problems_of_job(result, log_dir);
  std::string what = result.first_failure ? "failed" : "ended before its last step";
  if (result.stopped_on_request) what = "was stopped on request";
  problems.push_back({"LS-7053", "the run on " + ranks, what, place_of_logs(log_dir)});
  throw Error(is_own ? Exit::failed : result.exit, std::move(problems));
}

metrics::ConsoleOptions console_options(const Context& context) {
  metrics::ConsoleOptions options;
  options.terminal = context.out_is_terminal && !context.json;
  options.style = {context.color, context.utf8};
  options.width = terminal_columns(STDOUT_FILENO);
  options.quiet = context.quiet;
  return options;
}

}  // namespace lockstep::cli
