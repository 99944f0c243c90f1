#include "lockstep/engine/gradient_check.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/engine/train_state.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep::engine {
namespace {

constexpr std::int64_t kGlobalBatch = 8;

enum class Kind : std::uint8_t { mlp, resnet, synced_resnet, gpt, gpt_with_dropout };

config::RunConfig config_of(Kind kind, config::Dtype compute) {
  config::RunConfig config;
  config.run.steps = 4;
  config.run.check_gradients = 2;
  config.precision.compute = compute;
  config.optimizer.lr = 0.01;
  switch (kind) {
    case Kind::mlp:
      config.model.family = config::Family::mlp;
      config.model.inputs = 12;
      config.model.width = 16;
      config.model.layers = 2;
      config.model.classes = 3;
      break;
    case Kind::resnet:
    case Kind::synced_resnet:
      config.model.family = config::Family::resnet;
      config.model.image_size = 8;
      config.parallel.sync_batch_norm = kind == Kind::synced_resnet;
      break;
    case Kind::gpt:
    case Kind::gpt_with_dropout:
      config.model.family = config::Family::gpt;
      config.model.layers = 2;
      config.model.width = 16;
      config.model.heads = 2;
      config.model.vocab_size = 32;
      config.data.seq_len = 12;
      config.model.dropout = kind == Kind::gpt ? 0 : 0.3;
  }
  config.data.train_samples = 40;
  return config;
}

/// Keeps every report.
class Reports : public Observer {
 public:
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    all.push_back(report);
    return Answer::go_on;
  }
  std::vector<StepReport> all;
};

/// A run of `leaves` micro-batches over the group.
class TrainRun {
 public:
  TrainRun(comm::Group& group, config::RunConfig config, std::int64_t leaves)
      : config_(std::move(config)),
        data_(data::open_data(config_)),
        sampler_(data_.train->size(), 1, kGlobalBatch),
        loader_(*data_.train, sampler_,
                {group.rank() * leaves / group.size(), leaves / group.size(), leaves}, {1, 0, 1}) {
    plan_.strategies = {"data_parallel"};
    if (config_.parallel.sync_batch_norm)
      plan_.strategies.insert(plan_.strategies.begin(), "sync_batch_norm");
    plan_.degree = {1, group.size(), 1};
    plan_.batch = {kGlobalBatch, kGlobalBatch / leaves, leaves / group.size(), group.size(), leaves,
                   false};
    session_ = parallel::compose(
        {config_, plan_, Mesh(plan_.degree), {group, group, &group}, nullptr},
        model::make_model(config_.model, config_.data.seq_len, 1), parallel::strategies());
    trainer_ =
        std::make_unique<Trainer>(TrainerParts{config_, plan_, *session_, group, sampler_, loader_,
                                               nullptr, false, nullptr, data_.train.get()});
    trainer_->add_observer(reports_);
  }

  std::string train() {
    EXPECT_EQ(trainer_->run(), Outcome::done);
    return state_sha256(trainer_->state());
  }
  [[nodiscard]] const std::vector<StepReport>& reports() const { return reports_.all; }
  [[nodiscard]] Trainer& trainer() { return *trainer_; }
  [[nodiscard]] parallel::Session& session() { return *session_; }

 private:
  config::RunConfig config_;
  parallel::ParallelPlan plan_;
  data::DataPair data_;
  data::Sampler sampler_;
  data::Loader loader_;
  std::unique_ptr<parallel::Session> session_;
  std::unique_ptr<Trainer> trainer_;
  Reports reports_;
};

struct Expected {
  Kind kind;
  std::int64_t parts;  // of four micro-batches
};

TEST(GradientCheck, EveryFamilyAgreesWithOneRankAndTrainingDoesNotNoticeIt) {
  constexpr Expected kCases[] = {{Kind::mlp, 1},
                                 {Kind::gpt, 1},
                                 {Kind::gpt_with_dropout, 4},
                                 {Kind::resnet, 4},
                                 {Kind::synced_resnet, 2}};
  for (const Expected& expected : kCases) {
    test::run_ranks(2, [&](comm::Group& group) {
      config::RunConfig config = config_of(expected.kind, config::Dtype::fp32);
      TrainRun checked(group, config, 4);
      const std::string sha256 = checked.train();
      config.run.check_gradients = 0;
      EXPECT_EQ(TrainRun(group, config, 4).train(), sha256);
      ASSERT_EQ(checked.reports().size(), 4U);
      for (const StepReport& report : checked.reports()) {
        const bool due = report.step % 2 == 0 && group.rank() == 0;
        ASSERT_EQ(report.gradient_check.has_value(), due) << report.step;
        if (!due) continue;
        EXPECT_TRUE(report.gradient_check->passed) << report.gradient_check->worst_relative;
        EXPECT_GT(report.gradient_check->worst_relative, 0);
        EXPECT_EQ(report.gradient_check->parts, expected.parts);
        EXPECT_EQ(report.gradient_check->cut_for.empty(), expected.parts == 1);
        EXPECT_FALSE(report.gradient_check->parameter.empty());
        EXPECT_LT(report.times.step_s, report.gradient_check->check_s + report.times.step_s);
      }
    });
  }
}

TEST(GradientCheck, NarrowTypesStayWithinTheirTolerance) {
  for (const config::Dtype compute : {config::Dtype::bf16, config::Dtype::fp16}) {
    for (const Kind kind : {Kind::mlp, Kind::gpt, Kind::resnet}) {
      test::run_ranks(2, [&](comm::Group& group) {
        TrainRun run(group, config_of(kind, compute), 4);
        (void)run.train();
        if (group.rank() != 0) return;
        for (const StepReport& report : run.reports()) {
          if (report.step % 2 != 0) continue;
          ASSERT_TRUE(report.gradient_check);
          EXPECT_TRUE(report.gradient_check->passed)
              << report.gradient_check->worst_relative << " " << report.gradient_check->parameter;
          const double sums = report.gradient_check->micro_batches_relative.value_or(
              report.gradient_check->worst_relative);
          EXPECT_LT(sums, 1e-6) << "micro-batch by micro-batch only the order of sums differs";
        }
      });
    }
  }
}

TEST(GradientCheck, AGradientThatIsNotThatOfTheBatchIsFoundAndNamed) {
  const auto group = comm::make_gloo_group({});
  const config::RunConfig config = config_of(Kind::mlp, config::Dtype::fp32);
  TrainRun run(*group, config, 4);
  const auto whole = data::open_data(config);
  const data::Sampler sampler(whole.train->size(), 1, kGlobalBatch);
  parallel::Session& session = run.session();
  session.begin_step(0);
  const std::vector<std::int64_t> ids = sampler.step_ids({});
  for (std::int64_t leaf = 0; leaf < 4; ++leaf) {
    data::Batch batch = whole.train->collate(data::part_of(ids, leaf, 4), 0);
    if (leaf == 2) batch.target.fill_(1);  // as if a rank had other data
    session.set_control({});
    session.forward_backward(batch, leaf, leaf == 3);
  }
  (void)session.reduce();
  const auto found = check_gradients({config, session, *group, *whole.train, sampler},
                                     {{}, {0, 4, 4}, 0}, [] { return false; });
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->passed);
  EXPECT_GT(found->worst_relative, 0.01);
  ASSERT_TRUE(found->micro_batches_relative) << "the micro-batches were not looked at";
  EXPECT_GT(*found->micro_batches_relative, 0.01);
}

TEST(GradientCheck, ALongBatchIsCutSoThatNobodyWaitsTooLong) {
  const auto group = comm::make_gloo_group({});
  const config::RunConfig config = config_of(Kind::mlp, config::Dtype::fp32);
  TrainRun run(*group, config, 4);
  const auto whole = data::open_data(config);
  const data::Sampler sampler(whole.train->size(), 1, kGlobalBatch);
  EXPECT_EQ(run.trainer().step(), Answer::go_on);
  const auto cut = check_gradients({config, run.session(), *group, *whole.train, sampler},
                                   {{}, {0, 4, 4}, /*leaf_s=*/9.0}, [] { return false; });
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->parts, 2) << "two micro-batches of 9 s in 20 s";
  EXPECT_EQ(cut->cut_for, "time");
}

TEST(GradientCheck, IsGivenUpWhenTheRunIsToStopAndNobodyWaitsForIt) {
  test::run_ranks(2, [&](comm::Group& group) {
    const config::RunConfig config = config_of(Kind::resnet, config::Dtype::fp32);
    TrainRun run(group, config, 4);
    const auto whole = data::open_data(config);
    const data::Sampler sampler(whole.train->size(), 1, kGlobalBatch);
    EXPECT_EQ(run.trainer().step(), Answer::go_on);
    int asked = 0;
    const auto found =
        check_gradients({config, run.session(), group, *whole.train, sampler},
                        {{}, {group.rank() * 2, 2, 4}, 0}, [&] { return ++asked > 2; });
    EXPECT_FALSE(found);
    EXPECT_EQ(asked, group.rank() == 0 ? 3 : 0);
    group.barrier();
  });
}

TEST(GradientCheck, CompressionHasNoTolerance) {
  config::RunConfig config;
  EXPECT_EQ(check_tolerance(config).sums, 1e-4);
  config.precision.compute = config::Dtype::bf16;
  EXPECT_EQ(check_tolerance(config).sums, 1e-4) << "gradients travel in fp32";
  config.precision.reduce = config::Dtype::bf16;
  EXPECT_GT(check_tolerance(config).sums, 1e-3);
  config.parallel.gradient_compression = config::Compression::powersgd;
  EXPECT_EQ(check_tolerance(config).sums, 0);
}

}  // namespace
}  // namespace lockstep::engine
