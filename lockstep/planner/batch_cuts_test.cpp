#include "lockstep/planner/batch_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/planner/planner.h"

namespace lockstep::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Host host_of(std::int64_t memory_bytes) {
  Host host;
  host.cores = 2;
  host.memory_bytes = memory_bytes;
  return host;
}

/// Activations of some MB a sample.
config::RunConfig resnet(std::int64_t global_batch) {
  config::RunConfig config;
  config.model.family = config::Family::resnet;
  config.model.depth = 18;
  config.model.channels = 3;
  config.model.image_size = 32;
  config.batch.global_batch = global_batch;
  config.batch.finds_micro_batch = true;
  return config;
}

std::vector<std::int64_t> sizes(const BatchCuts& cuts) {
  std::vector<std::int64_t> sizes;
  for (const parallel::ParallelPlan& plan : cuts.cuts) {
    EXPECT_EQ(plan.batch.micro_batch * plan.batch.accumulation * plan.batch.data_ranks,
              plan.batch.global_batch);
    sizes.push_back(plan.batch.micro_batch);
  }
  return sizes;
}

TEST(MemoryOfRank, IsAShareOfWhatIsFree) {
  Host host = host_of(10'000'000'000);
  EXPECT_EQ(memory_of_rank(host, 2), 4'500'000'000);
  host.memory_free_bytes = 4'000'000'000;
  EXPECT_EQ(memory_of_rank(host, 2), 1'800'000'000);
  EXPECT_EQ(memory_of_rank(Host{}, 2), 0);
}

TEST(BatchCuts, BeginWithAllSamplesOfARankWhereTheyFit) {
  const BatchCuts cuts = batch_cuts(resnet(256), host_of(100'000'000'000), 2, 0);
  EXPECT_THAT(sizes(cuts), ElementsAre(128, 64, 32, 16, 8, 4, 2, 1));
  EXPECT_EQ(cuts.memory_limit_bytes, 45'000'000'000);
  EXPECT_FALSE(cuts.too_large.has_value());
}

TEST(BatchCuts, BeginWithTheLargestThatIsPredictedToFit) {
  const Host host = host_of(2'000'000'000);
  const BatchCuts cuts = batch_cuts(resnet(2048), host, 2, 0);
  const std::int64_t first = cuts.cuts.front().batch.micro_batch;
  EXPECT_GT(first, 1);
  EXPECT_LT(first, 1024);
  EXPECT_LE(cuts.cuts.front().memory.total(), cuts.memory_limit_bytes);
  ASSERT_TRUE(cuts.too_large.has_value());
  EXPECT_EQ(cuts.too_large->batch.micro_batch, 2 * first);
  EXPECT_GT(cuts.too_large->memory.total(), cuts.memory_limit_bytes);
  EXPECT_EQ(sizes(cuts).back(), 1);
}

TEST(BatchCuts, TakeDivisorsOfAnyNumber) {
  EXPECT_THAT(sizes(batch_cuts(resnet(360), host_of(100'000'000'000), 2, 0)),
              ElementsAre(180, 90, 45, 20, 10, 5, 2, 1));
  EXPECT_THAT(sizes(batch_cuts(resnet(127), host_of(100'000'000'000), 1, 0)), ElementsAre(127, 1));
  EXPECT_THAT(sizes(batch_cuts(resnet(2), host_of(100'000'000'000), 2, 0)), ElementsAre(1));
}

TEST(BatchCuts, WhereNothingFitsAreTheSmallest) {
  const BatchCuts cuts = batch_cuts(resnet(64), host_of(100'000'000), 1, 0);
  EXPECT_THAT(sizes(cuts), ElementsAre(1));
  EXPECT_EQ(cuts.too_large->batch.micro_batch, 2);
}

TEST(BatchCuts, BeginWithWhatWasGivenWhateverIsPredicted) {
  EXPECT_THAT(sizes(batch_cuts(resnet(64), host_of(100'000'000), 1, 0, 16)),
              ElementsAre(16, 8, 4, 2, 1));
}

TEST(BatchCuts, AreWhatAPlanOfAnAutomaticMicroBatchBeginsWith) {
  const Host host = host_of(2'000'000'000);
  const BatchCuts cuts = batch_cuts(resnet(2048), host, 2, 0);
  EXPECT_EQ(parallel::to_json_text(make_plan(resnet(2048), host, 2, 0)),
            parallel::to_json_text(cuts.cuts.front()));
  const config::RunConfig found = with_found_batch(resnet(2048), cuts.cuts.front());
  EXPECT_FALSE(found.batch.finds_micro_batch);
  EXPECT_EQ(found.batch.micro_batch, cuts.cuts.front().batch.micro_batch);
  EXPECT_EQ(parallel::to_json_text(make_plan(found, host, 2, 0)),
            parallel::to_json_text(cuts.cuts.front()));
}

ProbedCut fast(std::size_t cut, double samples_per_s) { return {cut, true, samples_per_s, 0}; }
ProbedCut full(std::size_t cut) { return {cut, false, 1, 0}; }

std::optional<std::size_t> next_after(const std::vector<ProbedCut>& probed, std::size_t cuts = 6) {
  return next_probe(probed, cuts);
}

TEST(NextProbe, LooksAtTheNextFinerCutAndOnWhileThatIsFaster) {
  EXPECT_EQ(next_after({}), 0U);
  EXPECT_EQ(next_after({fast(0, 100)}), 1U);
  EXPECT_EQ(next_after({fast(0, 100), fast(1, 90)}), std::nullopt);
  EXPECT_EQ(next_after({fast(0, 100), fast(1, 110)}), 2U);
  EXPECT_EQ(next_after({fast(0, 100), fast(1, 101)}), std::nullopt);
  EXPECT_EQ(next_after({fast(0, 100), fast(1, 110), fast(2, 120)}), 3U);
  EXPECT_EQ(next_after({fast(0, 1), fast(1, 2), fast(2, 3), fast(3, 4)}), std::nullopt);
  EXPECT_EQ(next_after({fast(0, 100)}, 1), std::nullopt);
}

TEST(NextProbe, PassesOverWhatDoesNotFit) {
  EXPECT_EQ(next_after({full(0)}), 1U);
  EXPECT_EQ(next_after({full(0), full(1)}), 2U);
  EXPECT_EQ(next_after({full(0), full(1), fast(2, 100)}), 3U);
  EXPECT_EQ(next_after({full(0), full(1), full(2)}, 3), std::nullopt);
  EXPECT_EQ(next_after({fast(0, 100), full(1)}), std::nullopt);
}

TEST(BestProbe, IsTheFastestThatFitsAndFinerOnlyWhenClearlyFaster) {
  const std::vector<ProbedCut> close{fast(0, 100), fast(1, 101)};
  EXPECT_EQ(best_probe(close).cut, 0U);
  const std::vector<ProbedCut> clear{full(0), fast(1, 100), fast(2, 110)};
  EXPECT_EQ(best_probe(clear).cut, 2U);
  const std::vector<ProbedCut> none{full(0), full(1)};
  EXPECT_EQ(best_probe(none).cut, 1U);
}

}  // namespace
}  // namespace lockstep::planner
