#include "lockstep/cli/job_front.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/terminal.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/config/parse.h"
#include "lockstep/metrics/events_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobFile = "job.json";

}  // namespace

void make_job_dir(planner::Job& job, const std::string& wanted) {
  const fs::path dir = make_run_dir(wanted, job.config.run.name);
  job.run_dir = dir.string();
  metrics::write_whole_file(dir / "config.json", config::to_json_text(job.config) + "\n");
  metrics::write_whole_file(dir / "plan.json", parallel::to_json_text(job.plan) + "\n");
  metrics::write_whole_file(dir / kJobFile, planner::to_json_text(job) + "\n");
}

std::vector<std::string> worker_command(const std::string& worker, const planner::Job& job) {
  return {worker, "train", "--job", (fs::path(job.run_dir) / kJobFile).string(), "--json"};
}

std::vector<Problem> problems_of_job(const launch::LocalJobResult& result,
                                     const std::string& log_dir) {
  LOCKSTEP_CHECK(result.first_failure.has_value(), "a job without a failure was asked for it");
  std::vector<Problem> problems = problems_of_worker(result.first_failure->last_stderr);
  if (!problems.empty()) return problems;
  return {{"LS-3006", "rank " + std::to_string(result.first_failure->rank),
           launch::describe(result), "all that the ranks printed is in " + log_dir}};
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
