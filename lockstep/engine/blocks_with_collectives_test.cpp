// Training where the blocks themselves talk to the other ranks (batch normalisation over ranks): no
// rank may be missing, whatever its part of the batch is.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/engine/trainer.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep::engine {
namespace {

constexpr std::int64_t kSide = 8;  // pixels

class Waves : public data::Dataset {
 public:
  explicit Waves(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t /*augment_key*/) const override {
    const auto n = static_cast<std::int64_t>(ids.size());
    data::Batch batch{at::empty({n, 1, kSide, kSide}), at::empty({n}, at::kLong), n, n};
    float* pixel = batch.input.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      batch.target[i] = id % 3;
      for (std::int64_t k = 0; k < kSide * kSide; ++k) {
        *pixel++ = static_cast<float>(std::sin(static_cast<double>((id % 3 + 1) * k + id)));
      }
    }
    return batch;
  }

 private:
  std::int64_t size_;
};

config::RunConfig config_of(std::int64_t steps) {
  config::RunConfig config;
  config.model.family = config::Family::resnet;
  config.model.image_size = kSide;
  config.model.classes = 3;
  config.optimizer.lr = 1e-5;
  config.parallel.sync_batch_norm = true;
  config.run.steps = steps;
  return config;
}

/// ResNet-20 on `group`, 6 samples a step, each rank's part in `accumulation` micro-batches.
struct SmallRun {
  SmallRun(comm::Group& group, comm::Group* statistics, const data::Dataset& data,
           std::int64_t steps, std::int64_t accumulation)
      : config(config_of(steps)), sampler(data.size(), 1, 6) {
    const std::int64_t leaves = group.size() * accumulation;
    plan.strategies = {"data_parallel", "sync_batch_norm"};
    plan.degree = {1, group.size(), 1};
    plan.batch = {6, 6 / leaves, accumulation, group.size(), leaves, false};
    loader = std::make_unique<data::Loader>(data, sampler, leaves_of_rank(plan.batch, group.rank()),
                                            data::LoaderOptions{1, 0, 1});
    session = parallel::compose({config, plan, Mesh(plan.degree), {group, group, statistics}},
                                model::make_model(config.model, 0, 1), parallel::strategies());
    trainer =
        std::make_unique<Trainer>(TrainerParts{config, plan, *session, group, sampler, *loader});
  }
  config::RunConfig config;
  parallel::ParallelPlan plan;
  data::Sampler sampler;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<parallel::Session> session;
  std::unique_ptr<Trainer> trainer;
};

class Losses : public Observer {
 public:
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    losses.push_back(report.loss);
    comm_bytes = report.comm_bytes;
    return Answer::go_on;
  }
  std::vector<double> losses;
  std::int64_t comm_bytes = 0;
};

std::vector<double> train(SmallRun& run) {
  Losses losses;
  run.trainer->add_observer(losses);
  EXPECT_EQ(run.trainer->run(), Outcome::done);
  return losses.losses;
}

TEST(BlocksWithCollectives, EpochsThatEndUnevenlyTrainAsOnOneRank) {
  const Waves data(13);  // the last step of an epoch has one sample: all ranks but one have none
  for (const int ranks : {2, 3}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      const auto statistics = test::join_another(group, "statistics");
      SmallRun ours(group, statistics.get(), data, 6, 1);
      const auto alone = comm::make_gloo_group({});
      SmallRun reference(*alone, nullptr, data, 6, 1);
      const std::vector<double> losses = train(ours);
      const std::vector<double> expected = train(reference);
      ASSERT_EQ(losses.size(), expected.size());
      for (std::size_t i = 0; i < losses.size(); ++i) {
        // With so few values a single ReLU whose input is rounded past 0 shows.
        EXPECT_NEAR(losses[i], expected[i], 1e-4 * expected[i]) << "step " << i;
      }
    });
  }
}

TEST(BlocksWithCollectives, MicroBatchesThatNobodyHasSamplesForAreJoinedToo) {
  const Waves data(
      7);  // the last step of an epoch: one sample for three micro-batches of two ranks
  test::run_ranks(2, [&](comm::Group& group) {
    const auto statistics = test::join_another(group, "statistics");
    SmallRun run(group, statistics.get(), data, 4, 3);
    for (const double loss : train(run)) EXPECT_TRUE(std::isfinite(loss));
    for (const StateEntry& entry : run.trainer->state().entries) {
      EXPECT_TRUE(at::isfinite(entry.tensor).all().item<bool>()) << entry.name;
    }
  });
}

/// Wants to stop at once after being asked `times`.
class StopsNow : public Observer {
 public:
  explicit StopsNow(int times) : times_(times) {}
  Answer on_step(const StepReport& /*report*/, const TrainState& /*state*/) override {
    return Answer::go_on;
  }
  bool stops_now() const override { return asked_++ >= times_; }

 private:
  int times_;
  mutable int asked_ = 0;
};

TEST(BlocksWithCollectives, ARankThatLeavesMicroBatchesOutKeepsTheOthersGoing) {
  constexpr int kNever = 1'000'000;
  const Waves data(12);
  test::run_ranks(2, [&](comm::Group& group) {
    const auto statistics = test::join_another(group, "statistics");
    for (const int times : {4, 3}) {  // three micro-batches a step: inside the second, before it
      SmallRun run(group, statistics.get(), data, 6, 3);
      StopsNow stop(group.rank() == 1 ? times : kNever);
      run.trainer->add_observer(stop);
      EXPECT_EQ(run.trainer->run(), Outcome::stopped);
      EXPECT_EQ(run.trainer->state().step, 1);
      SmallRun one_step(group, statistics.get(), data, 6, 3);
      EXPECT_EQ(one_step.trainer->step(), Answer::go_on);
      EXPECT_EQ(state_sha256(run.trainer->state()), state_sha256(one_step.trainer->state()));
    }
  });
}

TEST(BlocksWithCollectives, CountTheirBytes) {
  const Waves data(12);
  test::run_ranks(2, [&](comm::Group& group) {
    const auto statistics = test::join_another(group, "statistics");
    SmallRun run(group, statistics.get(), data, 1, 1);
    Losses losses;
    run.trainer->add_observer(losses);
    const std::int64_t world_before = group.payload_bytes();
    EXPECT_EQ(run.trainer->step(), Answer::go_on);
    EXPECT_GT(statistics->payload_bytes(), 0);
    EXPECT_EQ(losses.comm_bytes,
              group.payload_bytes() - world_before + statistics->payload_bytes());
  });
}

}  // namespace
}  // namespace lockstep::engine
