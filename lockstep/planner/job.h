// What a rank is handed: the resolved configuration, the plan and where the run lives.
#pragma once
#include <string>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::planner {

/// Written by the front as RUN_DIR/logs/N/job.json; where somebody else started the ranks, the
/// printing one makes it and broadcasts its text.
struct Job {
  config::RunConfig config;
  parallel::ParallelPlan plan;
  std::string run_dir;
  std::string resume = "auto";  // auto | none | a checkpoint folder | a tag under checkpoints/
};

[[nodiscard]] std::string to_json_text(const Job& job);
/// \throws BadData when the text is not a job.
[[nodiscard]] Job job_from_json_text(const std::string& json);

}  // namespace lockstep::planner
