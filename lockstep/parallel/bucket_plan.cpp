#include "lockstep/parallel/bucket_plan.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_layout.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kElementBytes = 4;

std::int64_t padded(std::int64_t count) {
  return (count + optim::kPadElements - 1) / optim::kPadElements * optim::kPadElements;
}

/// Sizes of the buckets in slots. The tail that fits last_bytes is kept for the last bucket.
std::vector<std::size_t> cut(const std::vector<GradientSlot>& slots, const BucketSizes& sizes) {
  std::size_t tail_begin = slots.size();
  std::int64_t tail_bytes = 0;
  while (tail_begin > 0) {
    const std::int64_t bytes = padded(slots[tail_begin - 1].count) * kElementBytes;
    if (tail_bytes > 0 && tail_bytes + bytes > sizes.last_bytes) break;
    tail_bytes += bytes;
    --tail_begin;
  }
  std::vector<std::size_t> lengths;
  std::size_t begin = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tail_begin; ++i) {
    bytes += padded(slots[i].count) * kElementBytes;
    const std::int64_t limit = lengths.empty() ? sizes.first_bytes : sizes.cap_bytes;
    if (bytes < limit && i + 1 < tail_begin) continue;
    lengths.push_back(i + 1 - begin);
    begin = i + 1;
    bytes = 0;
  }
  lengths.push_back(slots.size() - tail_begin);
  return lengths;
}

}  // namespace

BucketPlan plan_buckets(const std::vector<std::int64_t>& counts,
                        const std::vector<std::size_t>& ready_order, const BucketSizes& sizes) {
  LOCKSTEP_CHECK(counts.size() == ready_order.size(), "ready order must name every parameter once");
  BucketPlan plan;
  for (const std::size_t parameter : ready_order) {
    plan.slots.push_back({parameter, plan.total, counts.at(parameter)});
    plan.total += padded(counts.at(parameter));
  }
  std::size_t slot = 0;
  std::int64_t offset = 0;
  for (const std::size_t length : cut(plan.slots, sizes)) {
    const std::size_t end = slot + length;
    const std::int64_t end_offset = end < plan.slots.size() ? plan.slots[end].offset : plan.total;
    plan.buckets.push_back({slot, length, offset, end_offset - offset});
    slot = end;
    offset = end_offset;
  }
  return plan;
}

}  // namespace lockstep::parallel
