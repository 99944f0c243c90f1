#include "lockstep/config/batch_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Number = std::optional<std::int64_t>;

RunConfig batch(Number global_batch, Number micro_batch, Number accumulation) {
  RunConfig config;
  config.batch = {global_batch, micro_batch, accumulation};
  return config;
}

BatchShape shape(const RunConfig& config, int ranks) {
  const BatchShapeResult result = settle_batch(config, ranks);
  EXPECT_THAT(result.problems, IsEmpty()) << to_text(result.problems);
  EXPECT_EQ(result.shape.global_batch,
            result.shape.micro_batch * result.shape.accumulation * ranks);
  EXPECT_EQ(result.shape.leaves, result.shape.accumulation * ranks);
  EXPECT_EQ(result.shape.data_ranks, ranks);
  return result.shape;
}

Problem problem(const RunConfig& config, int ranks) {
  const BatchShapeResult result = settle_batch(config, ranks);
  EXPECT_EQ(result.problems.size(), 1U) << to_text(result.problems);
  return result.problems.empty() ? Problem{} : result.problems.front();
}

TEST(SettleBatch, AnyTwoGiveTheThird) {
  EXPECT_EQ(shape(batch(64, 8, {}), 2).accumulation, 4);
  EXPECT_EQ(shape(batch(64, {}, 4), 2).micro_batch, 8);
  EXPECT_EQ(shape(batch({}, 8, 4), 2).global_batch, 64);
  EXPECT_EQ(shape(batch(64, 8, 4), 2).leaves, 8);
}

TEST(SettleBatch, OneOrNoneTakesAccumulationOneAndMicroBatch32) {
  EXPECT_EQ(shape(batch(64, {}, {}), 2).micro_batch, 32);
  EXPECT_EQ(shape(batch({}, 8, {}), 4).global_batch, 32);
  EXPECT_EQ(shape(batch({}, {}, {}), 3).global_batch, 96);
  EXPECT_EQ(shape(batch({}, {}, 2), 1).global_batch, 64);
}

TEST(SettleBatch, ABatchThatDoesNotDivideNamesTheNearest) {
  EXPECT_EQ(problem(batch(100, {}, {}), 8),
            (Problem{"LS-1009", "batch.global_batch",
                     "global_batch 100 is not 8 ranks x a whole micro_batch", "use 96 or 104"}));
  EXPECT_EQ(problem(batch(100, 16, {}), 2),
            (Problem{"LS-1009", "batch.global_batch",
                     "global_batch 100 is not micro_batch 16 x 2 ranks x a whole accumulation",
                     "use 96 or 128"}));
  EXPECT_EQ(problem(batch(4, {}, 4), 2).fix, "use 8");
}

TEST(SettleBatch, UnequalNumbersNameWhatWouldFit) {
  const Problem unequal = problem(batch(64, 8, 2), 2);
  EXPECT_EQ(unequal.code, "LS-1009");
  EXPECT_THAT(unequal.what, HasSubstr("micro_batch 8 x accumulation 2 x 2 ranks is 32"));
  EXPECT_EQ(unequal.fix, "use global_batch = 32 or accumulation = 4, or drop one of the three");
  EXPECT_THAT(problem(batch(60, 8, 3), 2).fix, HasSubstr("or micro_batch = 10"));
  EXPECT_EQ(problem(batch(61, 8, 3), 2).fix, "use global_batch = 48, or drop one of the three");
}

TEST(SettleBatch, VirtualRanksFixTheLeavesForAnyRankCount) {
  RunConfig config = batch(64, {}, {});
  config.parallel.virtual_ranks = 4;
  for (const int ranks : {1, 2, 4}) {
    const BatchShape settled = shape(config, ranks);
    EXPECT_EQ(settled.leaves, 4);
    EXPECT_EQ(settled.micro_batch, 16);
    EXPECT_EQ(settled.accumulation, 4 / ranks);
    EXPECT_TRUE(settled.ordered);
  }
  EXPECT_FALSE(shape(batch(64, {}, {}), 2).ordered);
}

TEST(SettleBatch, VirtualRanksAloneOrWithAMicroBatchGiveTheAccumulation) {
  RunConfig config = batch({}, 8, {});
  config.parallel.virtual_ranks = 8;
  EXPECT_EQ(shape(config, 2).global_batch, 64);
  config.batch.micro_batch.reset();
  EXPECT_EQ(shape(config, 2).accumulation, 4);
}

TEST(SettleBatch, VirtualRanksMustBeAPowerOfTwoThatTheRanksDivide) {
  RunConfig config = batch(64, {}, {});
  config.parallel.virtual_ranks = 6;
  EXPECT_EQ(problem(config, 2).fix, "use 4 or 8");
  config.parallel.virtual_ranks = 4;
  EXPECT_EQ(problem(config, 3).fix, "start 2 ranks (valid: 1, 2 or 4)");
  EXPECT_EQ(problem(config, 8).fix, "start 4 ranks (valid: 1, 2 or 4)");
}

TEST(SettleBatch, VirtualRanksMustEqualGlobalBatchOverMicroBatch) {
  RunConfig config = batch(64, 8, {});
  config.parallel.virtual_ranks = 4;
  const Problem unequal = problem(config, 2);
  EXPECT_EQ(unequal.code, "LS-1010");
  EXPECT_THAT(unequal.what, HasSubstr("global_batch 64 / micro_batch 8 is 8"));
  EXPECT_EQ(unequal.fix, "use micro_batch = 16, or drop one of the batch numbers");
}

TEST(SettleBatch, ReportsEveryProblemOfVirtualRanksAtOnce) {
  RunConfig config = batch(64, {}, {});
  config.parallel.virtual_ranks = 6;
  config.parallel.data = 3;
  config.run.threads = 2;
  EXPECT_EQ(settle_batch(config, 2).problems.size(), 3U);
}

TEST(SettleBatch, ParallelDataMustBeTheRanksOfTheJob) {
  RunConfig config;
  config.parallel.data = 4;
  EXPECT_EQ(problem(config, 2).where, "parallel.data");
  EXPECT_EQ(shape(config, 4).data_ranks, 4);
}

RunConfig found_batch(Number global_batch, Number accumulation = {}) {
  RunConfig config = batch(global_batch, {}, accumulation);
  config.batch.finds_micro_batch = true;
  return config;
}

TEST(SettleBatch, AMicroBatchToBeFoundComesAsTheLargest) {
  EXPECT_EQ(shape(found_batch(64), 2).micro_batch, 32);
  EXPECT_EQ(shape(found_batch(64), 2).accumulation, 1);
  EXPECT_EQ(problem(found_batch(65), 2).code, "LS-1009");
}

TEST(SettleBatch, AMicroBatchToBeFoundNeedsAGlobalBatchAndAFreeCut) {
  EXPECT_EQ(problem(found_batch({}), 2).where, "batch.global_batch");
  EXPECT_EQ(problem(found_batch({}), 2).code, "LS-1019");
  EXPECT_EQ(problem(found_batch(64, 2), 2).where, "batch.accumulation");
  RunConfig config = found_batch(64);
  config.parallel.virtual_ranks = 4;
  EXPECT_EQ(problem(config, 2).code, "LS-1019");
  EXPECT_EQ(problem(config, 2).where, "batch.micro_batch");
}

TEST(SettleBatch, HugeNumbersAreAProblemAndNoOverflow) {
  EXPECT_EQ(problem(batch({}, 1'000'000'000, 1'000'000), 1'000'000).code, "LS-1009");
  EXPECT_EQ(problem(batch(1'000'000'000, 999'999'999, {}), 1'000'000).code, "LS-1009");
}

}  // namespace
}  // namespace lockstep::config
