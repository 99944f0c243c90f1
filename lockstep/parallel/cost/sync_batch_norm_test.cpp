#include "lockstep/parallel/cost/sync_batch_norm.h"

#include <gtest/gtest.h>

#include "lockstep/comm/shm/standard_layout.h"

namespace lockstep::parallel {
namespace {

/// What it adds to an empty plan of ResNet-20 on `ranks` ranks.
ParallelPlan added(int ranks, std::int64_t leaves_per_rank = 1,
                   config::Family family = config::Family::resnet) {
  config::RunConfig config;
  config.model.family = family;
  const model::ModelStats model = model::model_stats(config.model, 0);
  Host host;
  host.cores = 2;
  ParallelPlan plan;
  plan.batch.data_ranks = ranks;
  plan.batch.leaves = ranks * leaves_per_rank;
  estimate_sync_batch_norm({config, model, host, ranks}, plan);
  return plan;
}

TEST(SyncBatchNormCost, SendsTheMomentsForwardAndTwoSumsBackward) {
  // ResNet-20 has 7 normalised outputs of 16 channels, and 6 and a shortcut of 32 and of 64.
  const std::int64_t channels = 7 * 16 + 7 * 32 + 7 * 64;
  const std::int64_t layers = 21;
  const std::int64_t bytes = (4 * channels + layers) * 8;
  EXPECT_EQ(added(2).comm_bytes_per_step, bytes);
  EXPECT_EQ(added(2, 3).comm_bytes_per_step, 3 * bytes);
  EXPECT_EQ(added(2).memory.communication, comm::shm::standard_layout(2).total_bytes());
}

TEST(SyncBatchNormCost, IsExposedAndGrowsWhereRanksShareCores) {
  EXPECT_GT(added(2).exposed_comm_s, 0);
  EXPECT_EQ(added(2).step_s, added(2).exposed_comm_s);
  EXPECT_GT(added(8).exposed_comm_s, 2 * added(2).exposed_comm_s);
}

TEST(SyncBatchNormCost, IsNothingOnOneRank) {
  EXPECT_EQ(added(1).comm_bytes_per_step, 0);
  EXPECT_EQ(added(1).memory.communication, 0);
  EXPECT_EQ(added(1).step_s, 0);
}

TEST(SyncBatchNormCost, IsNothingForAModelWithoutIt) {
  const ParallelPlan plan = added(2, 1, config::Family::mlp);
  EXPECT_EQ(plan.step_s, 0);
  EXPECT_EQ(plan.exposed_comm_s, 0);
  EXPECT_EQ(plan.comm_bytes_per_step, 0);
}

TEST(SyncBatchNormCost, RefusesMoreVirtualRanksThanRanks) {
  config::RunConfig config;
  const model::ModelStats model;
  const Host host;
  const auto problems = [&](int ranks) {
    return check_sync_batch_norm({config, model, host, ranks});
  };
  EXPECT_TRUE(problems(2).empty());
  config.parallel.virtual_ranks = 4;
  EXPECT_TRUE(problems(4).empty());
  for (const int ranks : {1, 2}) {
    ASSERT_EQ(problems(ranks).size(), 1U) << ranks;
    EXPECT_EQ(problems(ranks).front().code, "LS-6012");
  }
}

}  // namespace
}  // namespace lockstep::parallel
