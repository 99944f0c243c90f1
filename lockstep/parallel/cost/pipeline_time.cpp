#include "lockstep/parallel/cost/pipeline_time.h"

#include <algorithm>

namespace lockstep::parallel {
namespace {

double gpipe(const std::vector<PassTime>& stages, double micro_batches) {
  PassTime slowest;
  double once = 0;
  for (const PassTime& stage : stages) {
    slowest.forward_s = std::max(slowest.forward_s, stage.forward_s);
    slowest.backward_s = std::max(slowest.backward_s, stage.backward_s);
    once += stage.both_s();
  }
  return once + (micro_batches - 1) * slowest.both_s();
}

}  // namespace

double pipeline_time(const std::vector<PassTime>& stages, const Layout& layout) {
  const auto micro_batches = static_cast<double>(layout.accumulation);
  if (layout.schedule == PipelineSchedule::gpipe) return gpipe(stages, micro_batches);
  const double chunks = layout.chunks;
  PassTime all;
  for (const PassTime& stage : stages) {
    all.forward_s += stage.forward_s;
    all.backward_s += stage.backward_s;
  }
  double before = 0;
  double behind = all.both_s();
  double longest = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const PassTime& own = stages[i];
    behind -= own.both_s();
    // Micro-batches that the stage begins before the first comes back: as planner/step_events.
    const auto later = static_cast<double>(stages.size() - 1 - i);
    const double more = (2 * later + (chunks - 1) * static_cast<double>(stages.size())) / chunks;
    const double ahead = std::min(chunks > 1 ? more : later, micro_batches - 1 / chunks);
    const double first = (behind + (chunks - 1) * all.forward_s) / chunks - ahead * own.forward_s;
    const double last = (behind + (chunks - 1) * all.backward_s) / chunks - ahead * own.backward_s;
    // Few micro-batches are all on their way at once, so the stage waits once.
    const bool few = ahead >= micro_batches - 1;
    const double waits = few ? std::max({0.0, first, last})
                             : std::min(std::max(0.0, first) + std::max(0.0, last), behind);
    const double bubble = before / chunks + waits;
    longest = std::max(longest, micro_batches * own.both_s() + bubble);
    before += own.both_s();
  }
  return longest;
}

}  // namespace lockstep::parallel
