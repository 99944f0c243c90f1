// What a rank is handed: the resolved configuration, the plan and where the run lives.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::planner {

/// What goes with a plan whose micro-batch was found (batch.micro_batch = "auto").
struct BatchSearch {
  std::vector<parallel::ParallelPlan> finer;  // cuts of the batch below Job::plan: BatchCuts::cuts
  bool probes = false;                  // the ranks try Job::plan and `finer` before they train
  std::int64_t memory_limit_bytes = 0;  // of a rank; 0 = unknown
  std::string memory_file;              // where what was found is kept for later runs
  std::string memory_key;               // JSON: for which model, machine and precision it holds
  std::string because;                  // a sentence for people: why Job::plan
};

/// Written by the front as RUN_DIR/logs/N/job.json; where somebody else started the ranks, the
/// printing one makes it and broadcasts its text.
struct Job {
  config::RunConfig config;
  parallel::ParallelPlan plan;
  std::string run_dir;
  std::string resume = "auto";  // auto | none | a folder | a step under checkpoints/ | a tag
  std::vector<std::string> allow_change{};  // keys that may differ from the checkpoint's
  std::optional<BatchSearch> search{};      // with batch.micro_batch = "auto"
};

[[nodiscard]] std::string to_json_text(const Job& job);
/// \throws BadData when the text is not a job.
[[nodiscard]] Job job_from_json_text(const std::string& json);

}  // namespace lockstep::planner
