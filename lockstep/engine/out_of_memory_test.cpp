// Memory that runs out on one rank in the middle of a run: all repeat the step in smaller
// micro-batches, and the run goes on as if it had been cut so from the start.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/engine/points_testing.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/memory/category.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"
#include "tests/support/short_of_memory.h"

namespace lockstep::engine {
namespace {

constexpr std::int64_t kGlobalBatch = 4096;
constexpr std::int64_t kSteps = 5;
constexpr std::int64_t kBadStep = 3;  // 1 = the first

/// A part of more than `most` samples finds no memory, where that is set.
class ShortPoints : public testing::Points {
 public:
  ShortPoints() : Points(3 * kGlobalBatch) {}
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t augment_key) const override {
    const auto n = static_cast<std::int64_t>(ids.size());
    if (most > 0 && n > most) throw std::bad_alloc();
    return Points::collate(ids, augment_key);
  }

  std::int64_t most = 0;
};

config::BatchShape cut_into(std::int64_t micro_batch, int ranks) {
  const std::int64_t leaves = kGlobalBatch / micro_batch;
  return {kGlobalBatch, micro_batch, leaves / ranks, ranks, leaves, false};
}

/// An MLP whose activations are most of its memory.
struct WideRun {
  WideRun(comm::Group& group, std::int64_t micro_batch, std::vector<std::int64_t> finer)
      : sampler(points.size(), 1, kGlobalBatch),
        loader(points, sampler, leaves_of_rank(cut_into(micro_batch, group.size()), group.rank()),
               {1, 0, 1}) {
    config.model.inputs = 6;
    config.model.width = 512;
    config.model.layers = 2;
    config.model.classes = 3;
    config.optimizer.momentum = 0.9;
    config.optimizer.lr = 0.05;
    config.run.steps = kSteps;
    plan.strategies = {"data_parallel"};
    plan.degree = {1, group.size(), 1};
    plan.batch = cut_into(micro_batch, group.size());
    plan.first_bucket_bytes = plan.bucket_bytes = plan.last_bucket_bytes = 1 << 16;  // several
    session = parallel::compose({config, plan, Mesh(plan.degree), {group, group}},
                                model::make_model(config.model, 0, 1), parallel::strategies());
    TrainerParts parts{config, plan, *session, group, sampler, loader};
    for (const std::int64_t size : finer) parts.finer.push_back(cut_into(size, group.size()));
    trainer = std::make_unique<Trainer>(parts);
  }

  ShortPoints points;
  config::RunConfig config;
  parallel::ParallelPlan plan;
  data::Sampler sampler;
  data::Loader loader;
  std::unique_ptr<parallel::Session> session;
  std::unique_ptr<Trainer> trainer;
};

/// Keeps what a run reports, and lets something happen after a step.
class Watch : public Observer {
 public:
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    losses.push_back(report.loss);
    if (report.step + 1 == kBadStep && before_bad_step) before_bad_step();
    return Answer::go_on;
  }
  void on_finer_cut(const FinerCut& cut) override { cuts.push_back(cut); }

  std::function<void()> before_bad_step;
  std::vector<double> losses;
  std::vector<FinerCut> cuts;
};

void train(WideRun& run, Watch& watch) {
  run.trainer->add_observer(watch);
  EXPECT_EQ(run.trainer->run(), Outcome::done);
  EXPECT_EQ(run.trainer->state().step, kSteps);
}

/// Trains on two ranks of which rank 1 has no memory for 2048 samples at once from the bad step on,
/// and compares with a run that is cut into 1024 from the start.
void expect_same_as_cut_from_the_start(comm::Group& group,
                                       const std::function<void(WideRun&)>& take_memory) {
  WideRun reference(group, 1024, {});
  Watch undisturbed;
  train(reference, undisturbed);

  WideRun run(group, 2048, {1024, 512});
  Watch watch;
  if (group.rank() == 1) watch.before_bad_step = [&] { take_memory(run); };
  train(run, watch);

  ASSERT_EQ(watch.cuts.size(), 1U);
  EXPECT_EQ(watch.cuts[0].step, kBadStep);
  EXPECT_EQ(watch.cuts[0].rank, 1);
  EXPECT_EQ(watch.cuts[0].batch.micro_batch, 1024);
  EXPECT_EQ(watch.cuts[0].batch.accumulation, 2);
  ASSERT_EQ(watch.losses.size(), undisturbed.losses.size());
  // A sum over 1024 and 1024 samples instead of over 2048 differs in the last bits.
  for (std::size_t i = 0; i < watch.losses.size(); ++i) {
    EXPECT_NEAR(watch.losses[i], undisturbed.losses[i], 1e-5 * undisturbed.losses[i]) << i;
  }
  EXPECT_LT(watch.losses.back(), watch.losses.front());
  EXPECT_EQ(run.trainer->state().position, reference.trainer->state().position);
}

/// Three quarters of what a step has taken beside what stays: enough for half the micro-batch.
std::int64_t three_quarters_of_a_step() {
  const memory::Usage usage = memory::usage();
  std::int64_t stays = 0;
  for (const std::int64_t bytes : usage.current_bytes) stays += bytes;
  stays -= usage.current_bytes[static_cast<std::size_t>(memory::Category::runtime)];
  return 3 * (usage.peak_total_bytes - stays) / 4;
}

/// The value of a line of /proc/self/status, in bytes.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  }
  return 0;
}

TEST(OutOfMemory, OfARanksShareCutsTheStepFinerOnAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    memory::install();
    memory::reset_peak();
    expect_same_as_cut_from_the_start(group, [](WideRun&) {
      memory::release_cached();
      memory::limit_resident(status_bytes("VmRSS:") + three_quarters_of_a_step());
    });
    memory::limit_resident(0);
  });
}

TEST(OutOfMemory, ThatTheSystemRefusesCutsTheStepFinerOnAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    memory::install();
    memory::reset_peak();
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    expect_same_as_cut_from_the_start(group, [&](WideRun&) {
      memory::release_cached();
      rlimit limit = before;
      limit.rlim_cur = static_cast<rlim_t>(status_bytes("VmSize:") + three_quarters_of_a_step());
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    });
    ::setrlimit(RLIMIT_AS, &before);
  });
}

TEST(OutOfMemory, OfTheLoaderCutsTheStepFinerOnAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    expect_same_as_cut_from_the_start(group, [](WideRun& run) { run.points.most = 1024; });
  });
}

TEST(OutOfMemory, OfABucketOnItsWayCutsTheStepFinerOnAllRanks) {
  test::run_ranks(2, [](comm::Group& ranks) {
    for (const int sums : {0, 1}) {  // entered before the one that finds no memory
      test::ShortOfMemory group(ranks);
      expect_same_as_cut_from_the_start(group, [&](WideRun&) { group.fail_after(sums); });
      EXPECT_TRUE(ranks.rank() == 0 || group.has_failed());
    }
  });
}

TEST(OutOfMemory, IsTriedAgainUntilItFitsAndEndsTheRunWhereNothingFits) {
  const auto group = comm::make_gloo_group({});
  WideRun run(*group, 4096, {1024, 512, 256});
  run.points.most = 600;
  Watch watch;
  train(run, watch);
  ASSERT_EQ(watch.cuts.size(), 2U);
  EXPECT_EQ(watch.cuts[1].step, 1);
  EXPECT_EQ(watch.cuts[1].rank, 0);
  EXPECT_EQ(watch.cuts[1].batch.micro_batch, 512);

  WideRun hopeless(*group, 4096, {1024});
  hopeless.points.most = 600;
  Watch seen;
  hopeless.trainer->add_observer(seen);
  EXPECT_THROW((void)hopeless.trainer->run(), std::bad_alloc);
  EXPECT_EQ(seen.cuts.size(), 1U);
}

TEST(OutOfMemory, OfAFixedMicroBatchEndsTheRun) {
  const auto group = comm::make_gloo_group({});
  WideRun run(*group, 4096, {});
  run.points.most = 600;
  EXPECT_THROW((void)run.trainer->run(), std::bad_alloc);
}

}  // namespace
}  // namespace lockstep::engine
