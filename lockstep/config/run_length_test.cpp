#include "lockstep/config/run_length.h"

#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

TEST(RunLength, CountsAPartialStepAtTheEndOfAnEpoch) {
  EXPECT_EQ(steps_per_epoch(100, 32), 4);
  EXPECT_EQ(steps_per_epoch(96, 32), 3);
  EXPECT_EQ(steps_per_epoch(1, 1'000'000'000), 1);
}

TEST(RunLength, IsWhatEndsFirstAndOneEpochWhenNothingIsSaid) {
  RunSection run;
  EXPECT_EQ(total_steps(run, 7), 7);
  run.epochs = 2.5;
  EXPECT_EQ(total_steps(run, 7), 18);
  run.steps = 10;
  EXPECT_EQ(total_steps(run, 7), 10);
  run.epochs.reset();
  EXPECT_EQ(total_steps(run, 7), 10);
  run.steps.reset();
  run.epochs = 1e6;
  EXPECT_GT(total_steps(run, 1'000'000'000'000'000), 0) << "does not overflow";
}

}  // namespace
}  // namespace lockstep::config
