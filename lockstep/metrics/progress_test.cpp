#include "lockstep/metrics/progress.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

TEST(Progress, TheSlowFirstStepIsForgotten) {
  Progress progress;
  progress.add(sample::step(1, 101, 5.0));
  EXPECT_NEAR(progress.rate_per_s(), 128 / 5.0, 1e-9);
  progress.add(sample::step(2, 101, 0.1));
  EXPECT_NEAR(progress.rate_per_s(), 1280, 1e-9);
  EXPECT_NEAR(progress.seconds_left(), 9.9, 1e-9);
  EXPECT_NEAR(progress.trained_s(), 5.1, 1e-9);
}

TEST(Progress, FollowsTheLastStepsAndForgetsOlderOnes) {
  Progress progress;
  for (int i = 1; i <= 60; ++i) progress.add(sample::step(i, 1000, 1.0));
  for (int i = 61; i <= 120; ++i) progress.add(sample::step(i, 1000, 0.1));
  EXPECT_NEAR(progress.rate_per_s(), 1280, 1e-6);
}

TEST(Progress, CountsTokensWhereTheModelDoes) {
  Progress progress;
  auto report = sample::step(1, 10, 0.5);
  report.tokens = 1000;
  progress.add(report);
  EXPECT_TRUE(progress.counts_tokens());
  EXPECT_NEAR(progress.rate_per_s(), 2000, 1e-9);
}

TEST(Progress, WithoutReportsNothingIsKnown) {
  EXPECT_TRUE(std::isnan(Progress().seconds_left()));
  EXPECT_EQ(Progress().rate_per_s(), 0);
}

TEST(CurveHistory, StaysBoundedAndKeepsTheShape) {
  CurveHistory history(8);
  for (int i = 0; i < 100000; ++i) history.add(i);
  const auto curve = history.curve(4);
  ASSERT_EQ(curve.size(), 4U);
  for (std::size_t i = 1; i < curve.size(); ++i) EXPECT_GT(curve[i], curve[i - 1]);
  EXPECT_LT(curve.front(), 25000);
  EXPECT_GT(curve.back(), 75000);
}

TEST(CurveHistory, AShortCurveHasOnePointAValue) {
  CurveHistory history(8);
  history.add(3);
  history.add(1);
  EXPECT_EQ(history.curve(6), (std::vector<double>{3, 1}));
  EXPECT_TRUE(CurveHistory(4).curve(3).empty());
}

}  // namespace
}  // namespace lockstep::metrics
