#include "lockstep/cli/scaling_plan.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/config/batch_shape.h"

namespace lockstep::cli {
namespace {

using metrics::Scaling;

config::BatchShape settled(const config::RunConfig& config, int ranks, Scaling scaling) {
  const auto result = config::settle_batch(scaling_config(config, ranks, scaling, {}), ranks);
  EXPECT_TRUE(result.problems.empty()) << to_text(result.problems);
  return result.shape;
}

TEST(RankCounts, AreSortedAndDifferent) {
  EXPECT_EQ(parse_rank_counts("4,1,2"), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(parse_rank_counts("3"), (std::vector<int>{3}));
  for (const char* text : {"", ",", "1,", "0", "-1", "1,1", "two", "1;2", "1, 2", "99999999999"}) {
    EXPECT_THROW((void)parse_rank_counts(text), UsageError) << text;
  }
}

TEST(ScalingConfig, WeakScalingKeepsTheWorkOfARank) {
  config::RunConfig config;
  config.batch.micro_batch = 64;
  config.batch.global_batch = 128;
  for (const int ranks : {1, 2, 3}) {
    const auto shape = settled(config, ranks, Scaling::weak);
    EXPECT_EQ(shape.micro_batch, 64);
    EXPECT_EQ(shape.accumulation, 1);
    EXPECT_EQ(shape.global_batch, 64 * ranks);
  }
}

TEST(ScalingConfig, AGlobalBatchAloneIsThatOfTheRanksItWasWrittenFor) {
  config::RunConfig config;
  config.batch.global_batch = 128;
  config.parallel.data = 2;
  EXPECT_EQ(settled(config, 4, Scaling::weak).global_batch, 256);
  config.parallel.data.reset();
  EXPECT_EQ(settled(config, 4, Scaling::weak).global_batch, 512);
}

TEST(ScalingConfig, StrongScalingKeepsTheGlobalBatch) {
  config::RunConfig config;
  config.batch.global_batch = 128;
  config.batch.micro_batch = 64;
  const auto one = settled(config, 1, Scaling::strong);
  EXPECT_EQ(one.global_batch, 128);
  EXPECT_EQ(one.accumulation, 2);
  const auto four = settled(config, 4, Scaling::strong);
  EXPECT_EQ(four.global_batch, 128);
  EXPECT_EQ(four.micro_batch, 32);
}

TEST(ScalingConfig, VirtualRanksFollowTheLeaves) {
  config::RunConfig config;
  config.batch.global_batch = 128;
  config.batch.micro_batch = 32;
  config.parallel.virtual_ranks = 4;
  EXPECT_EQ(settled(config, 2, Scaling::strong).leaves, 4);
  config.batch.accumulation = 2;
  config.batch.global_batch.reset();
  EXPECT_EQ(settled(config, 2, Scaling::weak).leaves, 4);
}

TEST(ScalingConfig, NothingButStepsIsLeft) {
  config::RunConfig config;
  config.run.epochs = 4;
  config.run.eval_every = 100;
  config.data.eval = "t10k";
  config.checkpoint.every = 10;
  config.checkpoint.dir = "kept";
  config.schedule.scale_lr_with_batch = 64;
  const auto measured = scaling_config(config, 2, Scaling::weak, {3, 7});
  EXPECT_EQ(measured.run.steps, 10);
  EXPECT_FALSE(measured.run.epochs);
  EXPECT_EQ(measured.run.eval_every, 0);
  EXPECT_EQ(measured.data.eval, "");
  EXPECT_EQ(measured.checkpoint.every, 0);
  EXPECT_EQ(measured.checkpoint.dir, "");
  EXPECT_EQ(measured.schedule.scale_lr_with_batch, 0);
  EXPECT_EQ(measured.parallel.data, 2);
}

}  // namespace
}  // namespace lockstep::cli
