// A job of this host as its front sees it: what `train` and `bench` share.
#pragma once
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/metrics/console.h"
#include "lockstep/planner/job.h"

namespace lockstep::cli {

/// Makes the run directory (`wanted`, or a new one under runs/ when empty), names it in `job` and
/// writes config.json, plan.json and job.json there. \throws EnvironmentFault.
void make_job_dir(planner::Job& job, const std::string& wanted);

/// The command of every rank of `job`. Its errors come back as JSON, to be shown in the form that
/// was asked for here.
[[nodiscard]] std::vector<std::string> worker_command(const std::string& worker,
                                                      const planner::Job& job);

/// Why a job ended badly: what its first failing rank said, or how that rank ended.
/// \param result has a first_failure. \param log_dir of its ranks, named in the fix.
[[nodiscard]] std::vector<Problem> problems_of_job(const launch::LocalJobResult& result,
                                                   const std::string& log_dir);

/// As the terminal, colours, locale and flags say. With --json it is to draw on the error stream.
[[nodiscard]] metrics::ConsoleOptions console_options(const Context& context);

}  // namespace lockstep::cli
