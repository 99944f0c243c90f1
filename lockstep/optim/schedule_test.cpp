#include "lockstep/optim/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::optim {
namespace {

using config::RunConfig;
using config::ScheduleName;

RunConfig with(ScheduleName name, double lr = 0.4, std::int64_t warmup_steps = 0) {
  RunConfig config;
  config.optimizer.lr = lr;
  config.schedule.name = name;
  config.schedule.warmup_steps = warmup_steps;
  return config;
}

TEST(Schedule, ConstantStaysAtThePeakWhateverTheLength) {
  const RunConfig config = with(ScheduleName::constant);
  for (const std::int64_t step : {0, 1, 99}) EXPECT_EQ(learning_rate(config, 32, step, 100), 0.4);
}

TEST(Schedule, WarmUpRisesLinearlyAndReachesThePeakAtItsLastStep) {
  const RunConfig config = with(ScheduleName::constant, 0.4, 4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 1, 100), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 3, 100), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 4, 100), 0.4);
}

TEST(Schedule, LinearFallsToItsFractionAtTheLastStep) {
  RunConfig config = with(ScheduleName::linear);
  config.schedule.final_lr_fraction = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 0, 11), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 5, 11), 0.22);
  EXPECT_NEAR(learning_rate(config, 32, 10, 11), 0.04, 1e-15);
}

TEST(Schedule, CosineFallsFromTheWarmUpsTopToItsFractionAtTheLastStep) {
  RunConfig config = with(ScheduleName::cosine, 0.4, 3);
  config.schedule.final_lr_fraction = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 2, 13), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 7, 13), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 12, 13), 0.2);
}

// Both tables were printed by tests/oracles/one_cycle_table.py with PyTorch 2.11.
TEST(Schedule, OneCycleGivesTheRatesOfPyTorch) {
  const std::vector<double> ten_steps{0.016000000000000014,
                                      0.20800000000000002,
                                      0.4,
                                      0.38019385280538953,
                                      0.3246982615799052,
                                      0.24450480877451572,
                                      0.1554967912254843,
                                      0.0753033384200948,
                                      0.019807747194610516,
                                      1.6e-06};
  const std::vector<double> seven_steps{0.016000000000000014,
                                        0.3922226509339835,
                                        0.36761775050788426,
                                        0.26907353459221806,
                                        0.14309551029586282,
                                        0.03971871675730624,
                                        1.6e-06};
  const RunConfig config = with(ScheduleName::one_cycle);
  for (const auto& rates : {ten_steps, seven_steps}) {
    const auto steps = static_cast<std::int64_t>(rates.size());
    for (std::int64_t step = 0; step < steps; ++step) {
      EXPECT_NEAR(learning_rate(config, 32, step, steps), rates[static_cast<std::size_t>(step)],
                  1e-15)
          << "step " << step << " of " << steps;
    }
  }
}

TEST(Schedule, OneCycleWithWarmUpStepsPeaksAtTheLastOfThem) {
  const RunConfig config = with(ScheduleName::one_cycle, 1.0, 5);
  EXPECT_NEAR(learning_rate(config, 32, 0, 20), 1.0 / 25, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(config, 32, 4, 20), 1.0);
  EXPECT_LT(learning_rate(config, 32, 5, 20), 1.0);
}

TEST(Schedule, TheShortestRunsHaveAFiniteRate) {
  for (const auto name : {ScheduleName::constant, ScheduleName::linear, ScheduleName::cosine,
                          ScheduleName::one_cycle}) {
    for (const std::int64_t warmup : {0, 1, 2, 9}) {
      for (std::int64_t total = 1; total <= 4; ++total) {
        for (std::int64_t step = 0; step < total; ++step) {
          const double rate = learning_rate(with(name, 0.4, warmup), 32, step, total);
          EXPECT_TRUE(rate >= 0.0 && rate <= 0.4) << rate;
        }
      }
    }
  }
  EXPECT_EQ(learning_rate(with(ScheduleName::cosine), 32, 0, 1), 0.4);
}

TEST(Schedule, TheRateGrowsWithTheGlobalBatchWhereAReferenceIsSet) {
  RunConfig config = with(ScheduleName::constant, 0.1);
  config.schedule.scale_lr_with_batch = 256;
  EXPECT_DOUBLE_EQ(learning_rate(config, 512, 0, 10), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 64, 0, 10), 0.025);
}

TEST(Schedule, StepsPastTheEndKeepTheLastRate) {
  const RunConfig config = with(ScheduleName::one_cycle);
  EXPECT_EQ(learning_rate(config, 32, 50, 10), learning_rate(config, 32, 9, 10));
}

}  // namespace
}  // namespace lockstep::optim
