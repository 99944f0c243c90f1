#include "lockstep/base/clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Clock, NeverRunsBackwards) {
  const double first = monotonic_s();
  EXPECT_GE(monotonic_s(), first);
}

TEST(Clock, AStopwatchFollowsTheClockItIsGiven) {
  double now_s = 100;
  const Stopwatch watch([&] { return now_s; });
  EXPECT_EQ(watch.elapsed_s(), 0);
  now_s = 102.5;
  EXPECT_EQ(watch.elapsed_s(), 2.5);
}

}  // namespace
}  // namespace lockstep
