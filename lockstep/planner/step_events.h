// One step event by event: which stage computes which micro-batch when, what ranks exchange
// meanwhile, and the end of it. All devices of a stage do the same, so that 100,000 of them are as
// many events as one of each stage.
#pragma once
#include <cstdint>
#include <string_view>
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

/// What goes on beside each other in a device.
enum class Lane : std::uint8_t { computing, tensor, hand_over, data, loading };

/// Anything but forward and backward.
struct LaneEvent {
  int stage = 0;
  Lane lane = Lane::data;
  std::string_view name;  // "bucket", "optimizer"
  std::int64_t number = -1;
  double begin_s = 0;
  double end_s = 0;
};

/// In order of their begin within each stage and lane.
struct StepEvents {
  std::vector<StepEvent> events;
  std::vector<LaneEvent> others{};
  double pipeline_s = 0;  // from the first forward to the last backward
  double busy_s = 0;      // of the stage that computes longest
  double step_s = 0;      // to the end of the last optimizer, exchange or load
};

/// Runs a schedule: GPipe all forwards first, 1F1B and interleaved as Megatron-LM orders them
/// (Narayanan et al. 2021, arXiv:2104.04473, section 2.2). Handing over takes the sender's time.
/// \param stages as parallel::step_parts gives them; a chunk has its share of each.
[[nodiscard]] StepEvents simulate_pipeline(const std::vector<parallel::StageTime>& stages,
                                           const parallel::Layout& layout);

/// The whole step: behind or beside the pipeline the data ranks' exchange bucket by bucket, then
/// each stage's optimizer. \param loading_s that the next step's data take to be read, beside all
/// of it.
[[nodiscard]] StepEvents simulate_step(const parallel::StepParts& parts,
                                       const parallel::Layout& layout, double loading_s = 0);

/// At most so many events has simulate_step of them: what it would cost to ask.
[[nodiscard]] double most_events(const parallel::StepParts& parts, const parallel::Layout& layout);

}  // namespace lockstep::planner
