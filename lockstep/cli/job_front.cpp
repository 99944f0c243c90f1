#include "lockstep/cli/job_front.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/terminal.h"
#include "lockstep/config/parse.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/planner/planner.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobFile = "job.json";

}  // namespace

planner::Job prepare_job(const JobRequest& request, const Host& host) {
  planner::Job job;
  job.config = request.config;
  job.plan = planner::make_plan(job.config, host, request.ranks);
  job.resume = request.resume;
  const fs::path dir = make_run_dir(request.run_dir, job.config.run.name);
  job.run_dir = dir.string();
  metrics::write_whole_file(dir / "config.json", config::to_json_text(job.config) + "\n");
  metrics::write_whole_file(dir / "plan.json", parallel::to_json_text(job.plan) + "\n");
  metrics::write_whole_file(dir / kJobFile, planner::to_json_text(job) + "\n");
  return job;
}

launch::LocalJobOptions rank_options(const planner::Job& job, const Context& context) {
  const fs::path worker = fs::path(context.program_path).parent_path() / "lockstep-worker";
  launch::LocalJobOptions options;
  options.command = {worker.string(), "train", "--job",
                     (fs::path(job.run_dir) / kJobFile).string()};
  if (context.quiet) options.command.emplace_back("--quiet");
  if (!context.color) options.command.emplace_back("--no-color");
  options.nproc_per_node = Mesh(job.plan.degree).world_size();
  options.threads_per_rank = job.config.run.threads;
  return options;
}

metrics::ConsoleOptions console_options(const Context& context) {
  metrics::ConsoleOptions options;
  options.terminal = context.out_is_terminal;
  options.style = {context.color, context.utf8};
  options.width = terminal_columns(STDOUT_FILENO);
  options.quiet = context.quiet;
  return options;
}

}  // namespace lockstep::cli
