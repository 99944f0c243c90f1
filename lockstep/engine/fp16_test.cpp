// Training in fp16 with a loss scale, and the learning rate against ranks, accumulation and skips.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/engine/points_testing.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep::engine {
namespace {

using testing::Points;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// None of its samples is finite.
class AllBad : public Points {
 public:
  using Points::Points;
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t key) const override {
    data::Batch batch = Points::collate(ids, key);
    batch.input.fill_(kInf);
    return batch;
  }
};

config::RunConfig fp16_config() {
  config::RunConfig config;
  config.model.inputs = 6;
  config.model.width = 16;
  config.model.layers = 2;
  config.model.classes = 3;
  config.optimizer.momentum = 0.9;
  config.run.steps = 6;
  config.precision.compute = config::Dtype::fp16;
  return config;
}

/// Keeps the reports of all steps.
class Reports : public Observer {
 public:
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    all.push_back(report);
    return Answer::go_on;
  }
  std::vector<StepReport> all;
};

/// A run of a tiny MLP: 8 samples a step in `leaves` parts over the group.
struct SmallRun {
  SmallRun(comm::Group& group, config::RunConfig c, const data::Dataset& data,
           std::int64_t leaves = 4)
      : config(std::move(c)),
        sampler(data.size(), 1, 8),
        loader(data, sampler, {group.rank() * leaves / group.size(), leaves / group.size(), leaves},
               {1, 0, 1}) {
    plan.strategies = {"data_parallel"};
    plan.degree = {1, group.size(), 1};
    plan.batch = {8, 8 / leaves, leaves / group.size(), group.size(), leaves, true};
    session = parallel::compose({config, plan, Mesh(plan.degree), {group, group}},
                                model::make_model(config.model, 0, 1), parallel::strategies());
    trainer =
        std::make_unique<Trainer>(TrainerParts{config, plan, *session, group, sampler, loader});
    trainer->add_observer(reports);
  }
  config::RunConfig config;
  parallel::ParallelPlan plan;
  data::Sampler sampler;
  data::Loader loader;
  Reports reports;
  std::unique_ptr<parallel::Session> session;
  std::unique_ptr<Trainer> trainer;
};

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

/// Warm-up over 10 steps to 1.0, then linear to 0 at step 100.
config::RunConfig scheduled() {
  config::RunConfig config = fp16_config();
  config.run.steps = 100;
  config.optimizer.lr = 1.0;
  config.optimizer.momentum = 0;
  config.optimizer.clip_grad_norm = 0.01;
  config.schedule.name = config::ScheduleName::linear;
  config.schedule.warmup_steps = 10;
  return config;
}

/// lr(n) is the rate of the n-th update.
void expect_rates(const SmallRun& run) {
  std::vector<double> rates;
  for (const StepReport& report : run.reports.all) {
    if (!report.skipped) rates.push_back(report.lr);
  }
  ASSERT_EQ(rates.size(), 100U);
  EXPECT_DOUBLE_EQ(rates[9], 1.0);
  EXPECT_DOUBLE_EQ(rates[54], 0.5);
  EXPECT_DOUBLE_EQ(rates[99], 0.0);
}

// huggingface/accelerate #2926, #662; transformers #26827: a schedule that ranks or accumulation
// advance ends early.
TEST(LearningRate, IsThatOfTheUpdatesWhateverTheRanksTheAccumulationAndTheSkips) {
  test::run_ranks(2, [](comm::Group& group) {
    const Points points(64);
    const Points with_bad(64, {5}, kInf);       // in one of eight steps
    for (const std::int64_t leaves : {2, 8}) {  // accumulation 1 and 4
      SmallRun run(group, scheduled(), points, leaves);
      EXPECT_EQ(run.trainer->run(), Outcome::done);
      expect_rates(run);
      SmallRun skips(group, scheduled(), with_bad, leaves);
      EXPECT_EQ(skips.trainer->run(), Outcome::done);
      EXPECT_GT(skips.trainer->state().skipped_steps, 10);
      expect_rates(skips);
    }
  });
}

TEST(Fp16, ABadBatchNowAndThenIsLeftOutWhateverOnNanSays) {
  const auto group = alone();
  const Points points(64, {5}, kInf);
  for (const auto policy : {config::OnNan::stop, config::OnNan::skip, config::OnNan::rollback}) {
    config::RunConfig config = fp16_config();
    config.run.steps = 15;  // the third epoch begins
    config.recovery.on_nan = policy;
    SmallRun run(*group, config, points);
    EXPECT_EQ(run.trainer->run(), Outcome::done);
    const TrainState& state = run.trainer->state();
    EXPECT_EQ(state.step, 15);
    EXPECT_GE(state.skipped_steps, 2);
    EXPECT_EQ(state.loss_scale.scale, std::ldexp(65536, -static_cast<int>(state.skipped_steps)));
    for (const StateEntry& entry : state.entries) {
      EXPECT_TRUE(at::isfinite(entry.tensor).all().item<bool>()) << entry.name;
    }
  }
}

TEST(Fp16, ASkippedStepIsReportedWithItsScaleAndPlace) {
  const auto group = alone();
  const Points points(64, {5}, kInf);
  config::RunConfig config = fp16_config();
  config.run.steps = 7;
  SmallRun run(*group, config, points);
  EXPECT_EQ(run.trainer->run(), Outcome::done);
  ASSERT_EQ(run.reports.all.size(), 8U);
  bool was_skipped = false;
  for (const StepReport& report : run.reports.all) {
    EXPECT_EQ(report.loss_scale, was_skipped ? 32768 : 65536);
    EXPECT_EQ(report.not_finite.has_value(), report.skipped);
    if (report.skipped) {
      EXPECT_EQ(report.not_finite->where, "the loss");
    }
    was_skipped = was_skipped || report.skipped;
    EXPECT_TRUE(report.warning.empty());
  }
  EXPECT_TRUE(was_skipped);
}

TEST(Fp16, TheStepAfterASkippedOneNamesTheBlock) {
  test::run_ranks(2, [](comm::Group& group) {
    const Points good(64);
    const AllBad bad(64);
    const data::Dataset& mine = group.rank() == 1 ? static_cast<const data::Dataset&>(bad) : good;
    SmallRun run(group, fp16_config(), mine);
    EXPECT_EQ(run.trainer->step(), Answer::go_on);
    EXPECT_EQ(run.trainer->step(), Answer::go_on);
    const std::vector<StepReport>& reports = run.reports.all;
    EXPECT_EQ(reports.at(0).not_finite, (parallel::NotFinite{1, "the loss"}));
    EXPECT_EQ(reports.at(1).not_finite, (parallel::NotFinite{1, "output of layers.0"}));
  });
}

TEST(Fp16, ConstantInfinityIsToldEarlyAndEndsTheRunWithTheParametersAsTheyWere) {
  test::run_ranks(2, [](comm::Group& group) {
    const Points good(64);
    const AllBad bad(64);
    const data::Dataset& mine = group.rank() == 1 ? static_cast<const data::Dataset&>(bad) : good;
    SmallRun run(group, fp16_config(), mine);
    const std::string before = parameters_sha256(run.trainer->state());
    try {
      (void)run.trainer->run();
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::failed);
      const Problem& problem = error.problems().front();
      EXPECT_EQ(problem.code, "LS-7104");
      EXPECT_EQ(problem.where, "step 1");
      EXPECT_EQ(problem.what,
                "10 steps in a row were not finite in fp16; the loss scale fell to 64 and did not "
                "help; first on rank 1: output of layers.0; parameters are unchanged");
    }
    EXPECT_EQ(run.trainer->state().skipped_steps, Trainer::kMaxSkips);
    EXPECT_EQ(parameters_sha256(run.trainer->state()), before);
    std::vector<std::size_t> warned;
    for (std::size_t i = 0; i < run.reports.all.size(); ++i) {
      if (!run.reports.all[i].warning.empty()) warned.push_back(i);
    }
    EXPECT_EQ(warned, std::vector<std::size_t>{3}) << "at the fourth skip";
    EXPECT_EQ(run.reports.all[3].warning,
              "4 of the last 4 steps overflowed in fp16, the loss scale is down to 4096; first on "
              "rank 1: output of layers.0");
  });
}

TEST(Fp16, WithRollbackAUselessScaleGoesBackAndNotOnWithoutACheckpoint) {
  const auto group = alone();
  const AllBad bad(64);
  config::RunConfig config = fp16_config();
  config.recovery.on_nan = config::OnNan::rollback;
  SmallRun run(*group, config, bad);
  try {
    (void)run.trainer->run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().code, "LS-7103");
    EXPECT_EQ(error.problems().front().where, "step 1") << "the one that failed";
  }
  EXPECT_EQ(run.reports.all.size(), static_cast<std::size_t>(Trainer::kMaxSkips));
}

TEST(Fp16, OneTwoAndFourRanksEndInTheSameStateSkipsIncluded) {
  for (const int ranks : {2, 4}) {
    test::run_ranks(ranks, [](comm::Group& group) {
      const Points points(21, {3, 17}, kInf);  // every third step is uneven
      SmallRun ours(group, fp16_config(), points);
      const auto single = alone();
      SmallRun reference(*single, fp16_config(), points);
      EXPECT_EQ(ours.trainer->run(), Outcome::done);
      EXPECT_EQ(reference.trainer->run(), Outcome::done);
      EXPECT_GT(reference.trainer->state().skipped_steps, 0);
      EXPECT_EQ(ours.trainer->state().loss_scale, reference.trainer->state().loss_scale);
      EXPECT_EQ(state_sha256(ours.trainer->state()), state_sha256(reference.trainer->state()));
    });
  }
}

/// What a checkpoint does.
void copy_state(const TrainState& from, TrainState& to) {
  for (std::size_t i = 0; i < from.entries.size(); ++i) {
    to.entries[i].tensor.copy_(from.entries[i].tensor);
  }
  to.step = from.step;
  to.position = from.position;
  to.skipped_steps = from.skipped_steps;
  to.loss_scale = from.loss_scale;
}

TEST(Fp16, GoingOnFromAnyStepGivesTheUndisturbedStateWithItsScale) {
  const Points points(21, {3}, kInf);
  const auto group = alone();
  SmallRun whole(*group, fp16_config(), points);
  EXPECT_EQ(whole.trainer->run(), Outcome::done);
  EXPECT_LT(whole.trainer->state().loss_scale.scale, 65536);
  for (int at = 1; at < 6; ++at) {
    SmallRun first(*group, fp16_config(), points);
    while (first.trainer->state().step < at) EXPECT_EQ(first.trainer->step(), Answer::go_on);
    SmallRun second(*group, fp16_config(), points);
    copy_state(first.trainer->state(), second.trainer->state());
    second.trainer->loaded();
    EXPECT_EQ(second.trainer->run(), Outcome::done);
    EXPECT_EQ(state_sha256(second.trainer->state()), state_sha256(whole.trainer->state()))
        << "resumed at step " << at;
  }
}

TEST(Fp16, AStateOfAnotherTypeLeavesTheFirstScaleAndOneOfFp16IsNotKeptByOthers) {
  const auto group = alone();
  const Points points(64);
  SmallRun fp16(*group, fp16_config(), points);
  fp16.trainer->state().loss_scale = {};
  fp16.trainer->loaded();
  EXPECT_EQ(fp16.trainer->state().loss_scale, (optim::LossScaleState{65536, 0}));
  config::RunConfig config = fp16_config();
  config.precision.compute = config::Dtype::bf16;
  SmallRun bf16(*group, config, points);
  bf16.trainer->state().loss_scale = {1024, 7};
  bf16.trainer->loaded();
  EXPECT_EQ(bf16.trainer->state().loss_scale, optim::LossScaleState{});
}

}  // namespace
}  // namespace lockstep::engine
