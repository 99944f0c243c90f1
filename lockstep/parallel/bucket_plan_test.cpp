#include "lockstep/parallel/bucket_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::parallel {
namespace {

std::vector<std::size_t> in_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

TEST(BucketPlan, EverySlotIsInExactlyOneBucketWithoutGaps) {
  const std::vector<std::int64_t> counts{5, 70000, 1, 640, 300000, 300000, 64, 900000, 12};
  const BucketPlan plan =
      plan_buckets(counts, in_order(counts.size()), {1 << 16, 1 << 20, 1 << 12});
  std::size_t slots = 0;
  std::int64_t offset = 0;
  for (const BucketRange& bucket : plan.buckets) {
    EXPECT_EQ(bucket.first_slot, slots);
    EXPECT_EQ(bucket.offset, offset);
    slots += bucket.slots;
    offset += bucket.count;
  }
  EXPECT_EQ(slots, counts.size());
  EXPECT_EQ(offset, plan.total);
}

TEST(BucketPlan, TheFirstAndTheLastBucketAreSmall) {
  const std::vector<std::int64_t> counts(64, 65536);  // 256 KiB each
  const BucketPlan plan =
      plan_buckets(counts, in_order(counts.size()), {1 << 20, 4 << 20, 1 << 19});
  EXPECT_EQ(plan.buckets.front().count * 4, 1 << 20);
  EXPECT_EQ(plan.buckets.back().count * 4, 1 << 19);
  for (std::size_t i = 1; i + 2 < plan.buckets.size(); ++i) {
    EXPECT_EQ(plan.buckets[i].count * 4, 4 << 20);
  }
}

TEST(BucketPlan, FollowsTheReadyOrderAndAlignsSlots) {
  const BucketPlan plan = plan_buckets({3, 100, 7}, {2, 0, 1}, {});
  ASSERT_EQ(plan.slots.size(), 3U);
  EXPECT_EQ(plan.slots[0].parameter, 2U);
  EXPECT_EQ(plan.slots[1].offset, 64);
  EXPECT_EQ(plan.slots[2].offset, 128);
  EXPECT_EQ(plan.total, 256);
}

TEST(BucketPlan, AModelSmallerThanTheLastBucketTravelsInOne) {
  EXPECT_EQ(plan_buckets({10, 20}, {1, 0}, {}).buckets.size(), 1U);
  EXPECT_EQ(plan_buckets({}, {}, {}).buckets.size(), 1U);
}

}  // namespace
}  // namespace lockstep::parallel
