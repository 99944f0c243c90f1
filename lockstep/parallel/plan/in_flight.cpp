#include "lockstep/parallel/plan/in_flight.h"

#include <algorithm>

namespace lockstep::parallel {
namespace {

/// Forwards take p micro-batches through chunk 0, then the same through chunk 1, and so on.
std::vector<std::int64_t> interleaved(const Layout& layout, int stage) {
  const std::int64_t stages = layout.pipeline;
  const std::int64_t chunks = layout.chunks;
  const std::int64_t begun =
      std::min(layout.accumulation * chunks, forwards_ahead(layout, stage) + 1);
  const std::int64_t round = stages * chunks;
  std::vector<std::int64_t> held(static_cast<std::size_t>(chunks), begun / round * stages);
  std::int64_t left = begun % round;
  for (std::int64_t& chunk : held) {
    const std::int64_t here = std::min(left, stages);
    chunk += here;
    left -= here;
  }
  return held;
}

}  // namespace

std::int64_t forwards_ahead(const Layout& layout, int stage) {
  const std::int64_t all = layout.accumulation * layout.chunks;
  if (layout.schedule == PipelineSchedule::gpipe) return all;
  const std::int64_t behind = layout.pipeline - 1 - stage;
  if (layout.chunks == 1) return std::min(all, behind);
  return std::min(all, 2 * behind + std::int64_t{layout.chunks - 1} * layout.pipeline);
}

std::vector<std::int64_t> in_flight(const Layout& layout, int stage) {
  if (layout.pipeline <= 1) return {1};
  if (layout.schedule == PipelineSchedule::gpipe) return {layout.accumulation};
  if (layout.schedule == PipelineSchedule::interleaved) return interleaved(layout, stage);
  return {std::min<std::int64_t>(layout.accumulation, layout.pipeline - stage)};
}

}  // namespace lockstep::parallel
