#include "lockstep/engine/trainer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/engine/evaluate.h"
#include "lockstep/engine/points_testing.h"
#include "lockstep/engine/values/straggler.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep::engine {
namespace {

using testing::Points;

config::RunConfig tiny_config() {
  config::RunConfig config;
  config.model.family = config::Family::mlp;
  config.model.inputs = 6;
  config.model.width = 16;
  config.model.layers = 1;
  config.model.classes = 3;
  config.optimizer.momentum = 0.9;
  config.run.steps = 6;
  return config;
}

/// A run of a tiny MLP on `group`, of 8 samples a step in 4 leaves.
struct TinyRun {
  TinyRun(comm::Group& group, config::RunConfig c, const data::Dataset& data,
          const data::Dataset* eval = nullptr)
      : config(std::move(c)),
        sampler(data.size(), 1, 8),
        loader(data, sampler, {group.rank() * 4 / group.size(), 4 / group.size(), 4}, {1, 0, 1}) {
    plan.strategies = {"data_parallel"};
    plan.degree = {1, group.size(), 1};
    plan.batch = {8, 2, 4 / group.size(), group.size(), 4, true};
    session = parallel::compose({config, plan, Mesh(plan.degree), {group, group}, &flight},
                                model::make_model(config.model, 0, 1), parallel::strategies());
    trainer = std::make_unique<Trainer>(
        TrainerParts{config, plan, *session, group, sampler, loader, eval, false, &flight});
  }
  config::RunConfig config;
  parallel::ParallelPlan plan;
  data::Sampler sampler;
  data::Loader loader;
  comm::FlightRecorder flight{0, 1};
  std::unique_ptr<parallel::Session> session;
  std::unique_ptr<Trainer> trainer;
};

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

/// Tells which phases the recorder was in when the trainer asked its observers.
class PhaseWatch : public Observer {
 public:
  explicit PhaseWatch(const comm::FlightRecorder& flight) : flight_(flight) {}
  [[nodiscard]] Answer on_step(const StepReport&, const TrainState&) override {
    after_step = flight_.snapshot().phase;
    return Answer::go_on;
  }
  void on_eval(const EvalReport&) override { after_eval = flight_.snapshot().phase; }

  comm::Phase after_step = comm::Phase::start;
  comm::Phase after_eval = comm::Phase::start;

 private:
  const comm::FlightRecorder& flight_;
};

TEST(Trainer, TellsTheFlightRecorderWhatItDoes) {
  const auto group = alone();
  const Points points(64);
  TinyRun run(*group, tiny_config(), points, &points);
  PhaseWatch watch(run.flight);
  run.trainer->add_observer(watch);
  EXPECT_EQ(run.flight.snapshot().phase, comm::Phase::start);
  EXPECT_EQ(run.trainer->run(), Outcome::done);
  EXPECT_EQ(watch.after_step, comm::Phase::optimizer);
  EXPECT_EQ(watch.after_eval, comm::Phase::eval);
}

TEST(Trainer, StepsOrEpochsEndTheRunWhateverComesFirst) {
  const auto group = alone();
  const Points points(100);  // 13 steps an epoch
  config::RunConfig config = tiny_config();
  const auto total_steps = [&] { return TinyRun(*group, config, points).trainer->total_steps(); };
  config.run.steps.reset();
  EXPECT_EQ(total_steps(), 13);
  config.run.steps = 20;
  EXPECT_EQ(total_steps(), 20);
  config.run.epochs = 1.0;
  EXPECT_EQ(total_steps(), 13);
  config.run.epochs = 0.5;
  EXPECT_EQ(total_steps(), 7);
}

TEST(Trainer, OneTwoAndFourRanksEndInTheSameState) {
  const Points points(21);  // every third step is uneven
  for (const int ranks : {2, 4}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      TinyRun ours(group, tiny_config(), points);
      const auto single = alone();
      TinyRun reference(*single, tiny_config(), points);
      EXPECT_EQ(ours.trainer->run(), Outcome::done);
      EXPECT_EQ(reference.trainer->run(), Outcome::done);
      EXPECT_EQ(state_sha256(ours.trainer->state()), state_sha256(reference.trainer->state()));
    });
  }
}

TEST(Trainer, AStaticGraphChangesNoNumbers) {
  const Points points(21);
  test::run_ranks(2, [&](comm::Group& group) {
    config::RunConfig config = tiny_config();
    TinyRun plain(group, config, points);
    config.parallel.static_graph = true;
    TinyRun promised(group, config, points);
    EXPECT_EQ(plain.trainer->run(), Outcome::done);
    EXPECT_EQ(promised.trainer->run(), Outcome::done);
    EXPECT_EQ(state_sha256(promised.trainer->state()), state_sha256(plain.trainer->state()));
  });
}

/// Keeps the last report.
class LastReport : public Observer {
 public:
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    last = report;
    return Answer::go_on;
  }
  StepReport last;
};

TEST(Trainer, ThePrintingRankReportsItsBucketsAndAllReportWhatEachRankComputed) {
  const Points points(64);
  test::run_ranks(2, [&](comm::Group& group) {
    TinyRun run(group, tiny_config(), points);
    LastReport observer;
    run.trainer->add_observer(observer);
    EXPECT_EQ(run.trainer->run(), Outcome::done);
    const StepReport& report = observer.last;
    ASSERT_EQ(report.per_rank.size(), 2U);
    for (const PhaseTimes& times : report.per_rank) EXPECT_GT(compute_s(times), 0);
    ASSERT_EQ(report.buckets.size(), group.rank() == 0 ? 1U : 0U);
    for (const BucketReport& bucket : report.buckets) {
      EXPECT_EQ(bucket.name.rfind("bucket 0: head.fc.weight .. ", 0), 0U) << bucket.name;
      EXPECT_GE(bucket.ready_s, report.times.data_s);
      EXPECT_GE(bucket.issued_s, bucket.ready_s);
      EXPECT_GE(bucket.done_s, bucket.issued_s);
      EXPECT_LE(bucket.done_s, report.times.step_s);
      EXPECT_GE(bucket.wait_s, 0);
    }
  });
}

// pytorch/pytorch #25162: samplers that pad count 22 of 21 images.
TEST(Evaluate, TwentyOneSamplesAreTwentyOneOnEveryNumberOfRanks) {
  const Points points(21);
  for (const int ranks : {2, 4}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      TinyRun ours(group, tiny_config(), points);
      const auto single = alone();
      TinyRun reference(*single, tiny_config(), points);
      const EvalReport a = evaluate(*ours.session, points, group, 4, 0).value();
      const EvalReport b = evaluate(*reference.session, points, *single, 4, 0).value();
      EXPECT_EQ(a.weight, 21);
      EXPECT_EQ(a.accuracy, b.accuracy);
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(std::lround(a.accuracy * 21), a.accuracy * 21);
    });
  }
}

/// Asks to stop after `at` steps, on one rank only.
class StopAt : public Observer {
 public:
  explicit StopAt(std::int64_t at) : at_(at) {}
  Answer on_step(const StepReport& report, const TrainState& /*state*/) override {
    last = report;
    return report.step >= at_ ? Answer::stop : Answer::go_on;
  }
  StepReport last;

 private:
  std::int64_t at_;
};

TEST(Trainer, WhenOneRankWantsToStopAllStopAtTheSameStep) {
  const Points points(64);
  test::run_ranks(2, [&](comm::Group& group) {
    TinyRun run(group, tiny_config(), points);
    StopAt stop(group.rank() == 1 ? 3 : 1000);
    run.trainer->add_observer(stop);
    EXPECT_EQ(run.trainer->run(), Outcome::stopped);
    EXPECT_EQ(run.trainer->state().step, 4);
    EXPECT_EQ(stop.last.per_rank.size(), 2U);
    EXPECT_GT(stop.last.per_rank[1].step_s, 0);
  });
}

/// Wants to stop at once after being asked `times`, and counts the evaluations that were finished.
class StopsNow : public Observer {
 public:
  explicit StopsNow(int times) : times_(times) {}
  Answer on_step(const StepReport& /*report*/, const TrainState& /*state*/) override {
    return Answer::go_on;
  }
  void on_eval(const EvalReport& /*report*/) override { ++evaluations; }
  bool stops_now() const override { return asked_++ >= times_; }
  int evaluations = 0;

 private:
  int times_;
  mutable int asked_ = 0;
};

TEST(Trainer, OneRankThatStopsBetweenMicroBatchesAbandonsTheStepOnAll) {
  constexpr int kNever = 1'000'000;
  const Points points(64);
  test::run_ranks(2, [&](comm::Group& group) {
    TinyRun run(group, tiny_config(), points);
    StopsNow stop(group.rank() == 1 ? 5 : kNever);  // two leaves a step: in the middle of the third
    run.trainer->add_observer(stop);
    EXPECT_EQ(run.trainer->run(), Outcome::stopped);
    EXPECT_EQ(run.trainer->state().step, 2);
    TinyRun two_steps(group, tiny_config(), points);
    EXPECT_EQ(two_steps.trainer->step(), Answer::go_on);
    EXPECT_EQ(two_steps.trainer->step(), Answer::go_on);
    EXPECT_EQ(state_sha256(run.trainer->state()), state_sha256(two_steps.trainer->state()));
  });
}

TEST(Trainer, OneRankThatStopsInAnEvaluationAbandonsItOnAll) {
  constexpr int kNever = 1'000'000;
  const Points points(64);
  const Points eval(2000);  // eight batches
  test::run_ranks(2, [&](comm::Group& group) {
    config::RunConfig config = tiny_config();
    config.run.eval_every = 2;
    TinyRun run(group, config, points, &eval);
    StopsNow stop(group.rank() == 1 ? 4 + 2 : kNever);
    run.trainer->add_observer(stop);
    EXPECT_EQ(run.trainer->run(), Outcome::stopped);
    EXPECT_EQ(run.trainer->state().step, 2);
    EXPECT_EQ(stop.evaluations, 0);
    EXPECT_FALSE(run.trainer->last_eval().has_value());
  });
}

/// Keeps one copy of the state and gives it back.
class Keeper : public Observer {
 public:
  explicit Keeper(std::int64_t at) : at_(at) {}
  Answer on_step(const StepReport& report, const TrainState& state) override {
    if (report.step == at_ && !report.skipped) keep(state);
    return Answer::go_on;
  }
  bool restore(TrainState& state) override {
    if (copies_.empty()) return false;
    for (std::size_t i = 0; i < copies_.size(); ++i) state.entries[i].tensor.copy_(copies_[i]);
    state.step = step_;
    state.position = position_;
    return true;
  }

 private:
  void keep(const TrainState& state) {
    copies_.clear();
    for (const StateEntry& entry : state.entries) copies_.push_back(entry.tensor.clone());
    step_ = state.step;
    position_ = state.position;
  }
  std::int64_t at_;
  std::vector<at::Tensor> copies_;
  std::int64_t step_ = 0;
  data::Position position_;
};

TEST(Trainer, GoingOnFromAnyStepGivesTheUndisturbedState) {
  const Points points(21);
  const auto group = alone();
  TinyRun whole(*group, tiny_config(), points);
  EXPECT_EQ(whole.trainer->run(), Outcome::done);
  for (std::int64_t at = 1; at < 6; ++at) {
    Keeper keeper(at);
    TinyRun first(*group, tiny_config(), points);
    first.trainer->add_observer(keeper);
    for (std::int64_t i = 0; i < at; ++i) EXPECT_EQ(first.trainer->step(), Answer::go_on);
    TinyRun second(*group, tiny_config(), points);
    ASSERT_TRUE(keeper.restore(second.trainer->state()));
    second.trainer->loaded();
    EXPECT_EQ(second.trainer->run(), Outcome::done);
    EXPECT_EQ(state_sha256(second.trainer->state()), state_sha256(whole.trainer->state()))
        << "resumed at step " << at;
  }
}

config::RunConfig with_policy(config::OnNan policy) {
  config::RunConfig config = tiny_config();
  config.recovery.on_nan = policy;
  config.run.steps = 8;
  return config;
}

/// Nothing in it is finite.
class AllBad : public Points {
 public:
  using Points::Points;
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t key) const override {
    data::Batch batch = Points::collate(ids, key);
    batch.input.fill_(std::numeric_limits<float>::infinity());
    return batch;
  }
};

TEST(Trainer, ASkippedStepIsReportedUnderTheNumberThatItsErrorNames) {
  const AllBad bad(32);
  const auto group = alone();
  TinyRun run(*group, with_policy(config::OnNan::stop), bad);
  StopAt last(1000);
  run.trainer->add_observer(last);
  try {
    (void)run.trainer->run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().where, "step 1");
  }
  EXPECT_TRUE(last.last.skipped);
  EXPECT_EQ(last.last.step, 1);
  EXPECT_FALSE(last.last.grad_norm) << "nothing is clipped, so no norm was computed";
}

TEST(Trainer, ALossThatIsNotANumberStopsBeforeTheParametersChange) {
  const Points points(32, {5}, std::nan(""));
  const auto group = alone();
  TinyRun run(*group, with_policy(config::OnNan::stop), points);
  try {
    (void)run.trainer->run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::failed);
    EXPECT_EQ(error.problems().front().code, "LS-7101");
  }
  for (const StateEntry& entry : run.trainer->state().entries) {
    EXPECT_TRUE(at::isfinite(entry.tensor).all().item<bool>()) << entry.name;
  }
}

TEST(Trainer, SkipLeavesOutTheBadStepOnly) {
  const Points points(32, {5}, std::nan(""));
  const auto group = alone();
  TinyRun run(*group, with_policy(config::OnNan::skip), points);
  EXPECT_EQ(run.trainer->run(), Outcome::done);
  EXPECT_EQ(run.trainer->state().step, 8);
  EXPECT_GE(run.trainer->state().skipped_steps, 1);
}

TEST(Trainer, RollbackGoesOnFromTheKeptStateAndPassesOverTheBadData) {
  const Points points(32, {5}, std::nan(""));
  const auto group = alone();
  config::RunConfig config = with_policy(config::OnNan::rollback);
  config.run.steps = 4;
  TinyRun run(*group, config, points);
  Keeper keeper(1);
  // The bad sample is in the first or a later step of the epoch; without a kept state it must fail.
  run.trainer->add_observer(keeper);
  try {
    EXPECT_EQ(run.trainer->run(), Outcome::done);
    EXPECT_EQ(run.trainer->state().step, 4);
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().code, "LS-7103");
    EXPECT_EQ(run.trainer->state().step, 0);
  }
}

TEST(Trainer, AStepWithoutAWayBackIsNamedItselfAndNotTheOneBefore) {
  const Points points(32, {5}, std::nan(""));
  const auto group = alone();
  TinyRun run(*group, with_policy(config::OnNan::rollback), points);
  StopAt last(1000);
  run.trainer->add_observer(last);
  try {
    (void)run.trainer->run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().code, "LS-7103");
    EXPECT_TRUE(last.last.skipped);
    EXPECT_EQ(error.problems().front().where, "step " + std::to_string(last.last.step));
    EXPECT_EQ(last.last.step, run.trainer->state().step + 1);
  }
}

TEST(Trainer, DataThatIsAllBadEndsAfterTenSkips) {
  const AllBad bad(32);
  const auto group = alone();
  TinyRun run(*group, with_policy(config::OnNan::skip), bad);
  EXPECT_THROW((void)run.trainer->run(), Error);
  EXPECT_EQ(run.trainer->state().skipped_steps, Trainer::kMaxSkips);
}

}  // namespace
}  // namespace lockstep::engine
