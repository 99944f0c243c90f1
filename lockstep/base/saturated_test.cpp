#include "lockstep/base/saturated.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

constexpr std::int64_t kMost = Saturated::kMost;

TEST(Saturated, CountsAsWholeNumbersDo) {
  EXPECT_EQ((Saturated(3) * 4 + 5).value(), 17);
  EXPECT_EQ((Saturated(7) / 2).value(), 3);
  EXPECT_EQ(Saturated::of(2.9).value(), 2);
}

TEST(Saturated, StopsAtTheLargestNumber) {
  EXPECT_EQ((Saturated(kMost) + 1).value(), kMost);
  EXPECT_EQ((Saturated(kMost / 2) * 3).value(), kMost);
  EXPECT_EQ((Saturated(kMost) * kMost).value(), kMost);
  EXPECT_EQ((Saturated(kMost) * 0).value(), 0);
  EXPECT_EQ(Saturated::of(1e300).value(), kMost);
  EXPECT_EQ(Saturated::of(std::numeric_limits<double>::infinity()).value(), kMost);
}

TEST(Saturated, IsNeverNegative) {
  EXPECT_EQ((Saturated(-5) + 2).value(), 2);
  EXPECT_EQ(Saturated::of(-1e300).value(), 0);
  EXPECT_EQ(Saturated::of(std::numeric_limits<double>::quiet_NaN()).value(), 0);
}

}  // namespace
}  // namespace lockstep
