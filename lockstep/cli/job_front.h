// From a configuration to ranks of this host: what `train` and `bench` share.
#pragma once
#include <string>

#include "lockstep/cli/command.h"
#include "lockstep/config/run_config.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/metrics/console.h"
#include "lockstep/planner/job.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::cli {

struct JobRequest {
  config::RunConfig config;
  int ranks = 1;
  std::string run_dir;          // empty = a new one under runs/
  std::string resume = "auto";  // as planner::Job
};

/// Plans the run, makes its directory and writes config.json, plan.json and job.json there.
/// \throws UsageError with every problem, before anything is made; EnvironmentFault.
[[nodiscard]] planner::Job prepare_job(const JobRequest& request, const Host& host);

/// How lockstep-worker, which stands beside this program, is started as the ranks of `job`.
[[nodiscard]] launch::LocalJobOptions rank_options(const planner::Job& job, const Context& context);

/// A console on `context.out` as the terminal, colours, locale and --quiet say.
[[nodiscard]] metrics::ConsoleOptions console_options(const Context& context);

}  // namespace lockstep::cli
