#include "lockstep/planner/host_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/planner/batch_cuts.h"
#include "lockstep/planner/planner.h"

namespace lockstep::planner {
namespace {

using testing::HasSubstr;

Host host_of(int cores, std::int64_t memory_bytes) {
  Host host;
  host.cores = cores;
  host.memory_bytes = memory_bytes;
  host.memory_free_bytes = memory_bytes;
  return host;
}

config::RunConfig small_gpt() {
  config::RunConfig config;
  config.model.family = config::Family::gpt;
  config.model.width = 384;
  config.model.layers = 6;
  return config;
}

HostSearch search(const config::RunConfig& config, const Host& host, std::int64_t batch) {
  return search_host(config, host, batch, 0);
}

std::string rejection(const HostSearch& found, std::string_view what) {
  for (const RejectedLayouts& row : found.rejected) {
    if (row.what == what) return row.because;
  }
  return "";
}

TEST(HostSearch, RanksNumbersOfRanksAtTheSameBatchByTime) {
  const HostSearch found = search(small_gpt(), host_of(4, 64'000'000'000), 16);
  ASSERT_EQ(found.ranked.size(), 3U) << "1, 2 and 4 ranks divide 16, 3 do not";
  for (std::size_t i = 0; i < found.ranked.size(); ++i) {
    const config::BatchShape& batch = found.ranked[i].plan.batch;
    EXPECT_EQ(batch.micro_batch * batch.accumulation * batch.data_ranks, 16);
    EXPECT_THAT(found.ranked[i].flags,
                HasSubstr("--nproc-per-node " + std::to_string(batch.data_ranks)));
    EXPECT_NE(found.ranked[i].why, "");
    if (i < 2) continue;
    EXPECT_LE(found.ranked[i - 1].plan.step_s, found.ranked[i].plan.step_s);
  }
  EXPECT_EQ(found.considered, 5 + 4 + 3) << "divisors of 16, 8 and 4";
  EXPECT_THAT(rejection(found, "ranks 3"), HasSubstr("do not divide the batch of 16"));
}

TEST(HostSearch, TakesNoLayoutThatAnotherBeatsByMoreThanPredictionsAreOff) {
  const config::RunConfig config = small_gpt();
  const Host host = host_of(4, 64'000'000'000);
  const HostSearch found = search(config, host, 24);
  const double best = found.ranked.at(0).plan.step_s;
  for (const int ranks : {1, 2, 3, 4}) {
    for (std::int64_t micro = 1; micro <= 24 / ranks; ++micro) {
      if (24 / ranks % micro != 0) continue;
      config::RunConfig one = config;
      one.batch.global_batch = 24;
      one.batch.micro_batch = micro;
      EXPECT_GE(make_plan(one, host, ranks, 0).step_s, best / 1.021) << ranks << " " << micro;
    }
  }
}

TEST(HostSearch, SaysOfEachChoiceThatItDoesNotTakeWhy) {
  const HostSearch found = search(small_gpt(), host_of(2, 64'000'000'000), 16);
  const config::BatchShape& best = found.ranked.at(0).plan.batch;
  for (const int ranks : {1, 2}) {
    const bool taken = ranks == best.data_ranks;
    EXPECT_EQ(rejection(found, "ranks " + std::to_string(ranks)).empty(), taken);
  }
  for (const std::int64_t micro : {1, 2, 4, 8}) {
    const bool taken = micro == best.micro_batch;
    EXPECT_EQ(rejection(found, "micro_batch " + std::to_string(micro)).empty(), taken) << micro;
  }
}

TEST(HostSearch, LeavesOutWhatDoesNotFit) {
  const config::RunConfig config = small_gpt();
  const HostSearch roomy = search(config, host_of(1, 64'000'000'000), 512);
  const std::int64_t most = roomy.ranked.at(0).plan.memory.total();
  ASSERT_GT(roomy.ranked.at(0).plan.batch.micro_batch, 1);
  config::RunConfig one = config;
  one.batch.global_batch = 512;
  one.batch.micro_batch = 1;
  const std::int64_t least = make_plan(one, host_of(1, most), 1, 0).memory.total();
  const HostSearch tight = search(config, host_of(1, (most + least) / 2), 512);
  ASSERT_FALSE(tight.ranked.empty());
  EXPECT_LE(tight.ranked.front().plan.memory.total(), (most + least) / 2);
  EXPECT_THAT(rejection(tight, "micro_batch 512"), HasSubstr("does not fit"));
  const HostSearch none = search(config, host_of(1, 1'000'000), 512);
  EXPECT_TRUE(none.ranked.empty());
  EXPECT_THAT(rejection(none, "ranks 1"), HasSubstr("does not fit"));
}

TEST(HostSearch, TakesNothingThatAnAutomaticMicroBatchRefuses) {
  const config::RunConfig config = small_gpt();
  Host host = host_of(1, 64'000'000'000);
  const parallel::ParallelPlan most = search(config, host, 512).ranked.at(0).plan;
  host.memory_free_bytes = most.memory.total();  // a tenth of it is to stay free
  const HostSearch found = search(config, host, 512);
  ASSERT_FALSE(found.ranked.empty());
  const std::int64_t limit = memory_of_rank(host, 1);
  EXPECT_LE(found.ranked.front().plan.memory.total(), limit);
  EXPECT_THAT(rejection(found, "micro_batch " + std::to_string(most.batch.micro_batch)),
              HasSubstr("does not fit"));
  config::RunConfig open = config;
  open.batch.global_batch = 512;
  open.batch.finds_micro_batch = true;
  EXPECT_EQ(batch_cuts(open, host, 1, 0).memory_limit_bytes, limit);
}

TEST(HostSearch, KeepsVirtualRanks) {
  config::RunConfig config = small_gpt();
  config.run.threads = 1;
  config.parallel.virtual_ranks = 4;
  const HostSearch found = search(config, host_of(4, 64'000'000'000), 16);
  ASSERT_FALSE(found.ranked.empty());
  for (const HostLayout& row : found.ranked) EXPECT_EQ(row.plan.batch.micro_batch, 4);
}

}  // namespace
}  // namespace lockstep::planner
