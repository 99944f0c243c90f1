#include "lockstep/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::planner {
namespace {

Host two_cores() {
  Host host;
  host.cores = 2;
  host.memory_bytes = 8'000'000'000;
  return host;
}

config::RunConfig resnet18() {
  config::RunConfig config;
  config.model.family = config::Family::resnet;
  config.model.depth = 18;
  config.model.channels = 3;
  config.model.image_size = 32;
  config.batch.micro_batch = 32;
  return config;
}

TEST(Planner, SettlesTheBatchAndEstimatesMemoryAndTime) {
  const parallel::ParallelPlan plan = make_plan(resnet18(), two_cores(), 2, 0);
  EXPECT_EQ(plan.strategies, std::vector<std::string>{"data_parallel"});
  EXPECT_EQ(plan.degree, (Coord{1, 2, 1}));
  EXPECT_EQ(plan.batch.global_batch, 64);
  EXPECT_GT(plan.memory.parameters, 4 * 11'173'962);
  EXPECT_GT(plan.memory.activations, 0);
  EXPECT_GT(plan.step_s, 0);
}

TEST(Planner, CutsLargeModelsIntoEightBuckets) {
  const parallel::ParallelPlan plan = make_plan(resnet18(), two_cores(), 2, 0);
  EXPECT_EQ(plan.first_bucket_bytes, 1 << 20);
  EXPECT_EQ(plan.bucket_bytes, 11'173'962 * 4 / 8);
  EXPECT_EQ(plan.last_bucket_bytes, 2 << 20);
}

TEST(Planner, TakesBucketSizesFromTheConfiguration) {
  config::RunConfig config = resnet18();
  config.parallel.bucket_mib = 2.5;
  config.parallel.first_bucket_mib = 0.5;
  const parallel::ParallelPlan plan = make_plan(config, two_cores(), 2, 0);
  EXPECT_EQ(plan.bucket_bytes, 2'621'440);
  EXPECT_EQ(plan.first_bucket_bytes, 524'288);
}

TEST(Planner, ReportsProblemsOfBatchModelAndStrategyTogether) {
  config::RunConfig config = resnet18();
  config.model.depth = 19;
  config.batch.global_batch = 33;
  config.parallel.virtual_ranks = 2;
  config.precision.reduce = config::Dtype::bf16;
  try {
    (void)make_plan(config, two_cores(), 2, 0);
    FAIL() << "a plan was made of a faulty configuration";
  } catch (const UsageError& error) {
    const auto has = [&](std::string_view code) {
      return std::any_of(error.problems().begin(), error.problems().end(),
                         [&](const Problem& p) { return p.code == code; });
    };
    EXPECT_TRUE(has("LS-6002")) << error.what();
    EXPECT_TRUE(has("LS-6010")) << error.what();
    EXPECT_TRUE(has("LS-1009") || has("LS-1010")) << error.what();
  }
}

TEST(Planner, IsAPureFunction) {
  const auto first = make_plan(resnet18(), two_cores(), 2, 0);
  const auto again = make_plan(resnet18(), two_cores(), 2, 0);
  EXPECT_EQ(parallel::to_json_text(first), parallel::to_json_text(again));
}

}  // namespace
}  // namespace lockstep::planner
