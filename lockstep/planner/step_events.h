// One step event by event: which stage computes which micro-batch when. All devices of a stage do
// the same, so that 100,000 of them are as many events as one of each stage.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/parallel/cost/step_time.h"

namespace lockstep::planner {

struct StepEvent {
  int stage = 0;
  int chunk = 0;
  std::int64_t micro_batch = 0;
  bool backward = false;
  double begin_s = 0;
  double end_s = 0;
};

/// In order of their begin within each stage.
struct StepEvents {
  std::vector<StepEvent> events;
  double pipeline_s = 0;  // from the first forward to the last backward
  double busy_s = 0;      // of the stage that computes longest
};

/// Runs a schedule: GPipe all forwards first, 1F1B and interleaved as Megatron-LM orders them
/// (Narayanan et al. 2021, arXiv:2104.04473, section 2.2). Handing over takes the sender's time.
/// \param stages as parallel::stage_times gives them; a chunk has its share of each.
[[nodiscard]] StepEvents simulate_pipeline(const std::vector<parallel::StageTime>& stages,
                                           const parallel::Layout& layout);

/// Chrome's trace format (chrome://tracing, ui.perfetto.dev), and behind the pipeline the exposed
/// exchange of data ranks and the optimizer. \param devices_per_stage named in each row.
[[nodiscard]] std::string chrome_trace(const StepEvents& step, const parallel::TimePrediction& time,
                                       std::int64_t devices_per_stage);

}  // namespace lockstep::planner
