#include "lockstep/parallel/cost/data_parallel.h"

#include <gtest/gtest.h>

#include "lockstep/comm/shm/standard_layout.h"
#include "lockstep/parallel/cost/exchange_cost.h"

namespace lockstep::parallel {
namespace {

using config::Dtype;
using config::OptimizerName;

/// A GPT of 10.7 million parameters on `ranks` ranks, with what the estimate needs.
struct Case {
  config::RunConfig config;
  Host host;
  ParallelPlan plan;
  model::ModelStats model;
  int ranks;

  explicit Case(int world_size, std::int64_t leaves_per_rank = 1) : ranks(world_size) {
    config.model.family = config::Family::gpt;
    config.model.layers = 6;
    config.model.width = 384;
    config.model.vocab_size = 128;
    config.optimizer.name = OptimizerName::adamw;
    host.cores = 2;
    plan.batch.micro_batch = 4;
    plan.batch.data_ranks = ranks;
    plan.batch.leaves = ranks * leaves_per_rank;
    plan.batch.accumulation = leaves_per_rank;
    plan.batch.global_batch = 4 * plan.batch.leaves;
  }

  ParallelPlan estimate() {
    model = model::model_stats(config.model, config.data.seq_len);
    estimate_data_parallel({config, model, host, ranks}, plan);
    return plan;
  }
  [[nodiscard]] std::vector<Problem> check() {
    return check_data_parallel({config, model, host, ranks});
  }
};

/// Padding of the flat buffers is below 1 % here.
void expect_near_share(std::int64_t bytes, double expected) {
  EXPECT_GE(static_cast<double>(bytes), expected);
  EXPECT_LE(static_cast<double>(bytes), 1.01 * expected);
}

TEST(DataParallelCost, TakesSixteenBytesAParameterForAdamInFp32) {
  Case c(2);
  const MemoryPlan memory = c.estimate().memory;
  const auto parameters = static_cast<double>(c.model.parameters());
  expect_near_share(memory.parameters, 4 * parameters);
  expect_near_share(memory.gradients, 4 * parameters);
  expect_near_share(memory.optimizer, 8 * parameters);
  EXPECT_EQ(memory.communication, comm::shm::standard_layout(2).total_bytes());
}

TEST(DataParallelCost, KeepsMastersBesideBf16Weights) {
  Case c(2);
  c.config.precision.compute = Dtype::bf16;
  c.config.optimizer.name = OptimizerName::sgd;
  const MemoryPlan plain = c.estimate().memory;
  const auto parameters = static_cast<double>(c.model.parameters());
  expect_near_share(plain.parameters, 2 * parameters);
  expect_near_share(plain.optimizer, 4 * parameters);
  c.config.optimizer.momentum = 0.9;
  expect_near_share(c.estimate().memory.optimizer, 8 * parameters);
}

TEST(DataParallelCost, HalvesTheActivationsWithBf16AndScalesThemWithTheMicroBatch) {
  Case c(1);
  const double fp32 = static_cast<double>(c.estimate().memory.activations);
  c.config.precision.compute = Dtype::bf16;
  const double bf16 = static_cast<double>(c.estimate().memory.activations);
  EXPECT_NEAR(bf16 / fp32, 0.5, 0.02);
  c.plan.batch.micro_batch = 8;
  const double twice = static_cast<double>(c.estimate().memory.activations);
  EXPECT_NEAR(twice / bf16, 2, 0.05);
}

TEST(DataParallelCost, Fp16TakesWhatBf16DoesAndTheWidenedOperandsOfItsProducts) {
  Case c(2);
  const ParallelPlan fp32 = c.estimate();
  c.config.precision.compute = Dtype::bf16;
  const ParallelPlan bf16 = c.estimate();
  c.config.precision.compute = Dtype::fp16;
  const ParallelPlan fp16 = c.estimate();
  EXPECT_EQ(fp16.memory.parameters, bf16.memory.parameters);
  EXPECT_EQ(fp16.memory.gradients, bf16.memory.gradients);
  EXPECT_EQ(fp16.memory.optimizer, bf16.memory.optimizer);
  EXPECT_EQ(fp16.comm_bytes_per_step, bf16.comm_bytes_per_step);
  EXPECT_GT(fp16.memory.activations, bf16.memory.activations);
  EXPECT_LT(fp16.memory.activations, fp32.memory.activations);
  EXPECT_GT(fp16.forward_s, 1.5 * bf16.forward_s) << "CPUs multiply it in fp32";
  EXPECT_EQ(bf16.compute, "");
  EXPECT_EQ(fp16.compute, "fp16 beside fp32 masters, dynamic loss scale");
  c.config.precision.loss_scale = 1024;
  EXPECT_EQ(c.estimate().compute, "fp16 beside fp32 masters, loss scale 1024");
}

TEST(DataParallelCost, TellsWhichParametersDecayWhenNotAllDo) {
  Case c(1);
  c.config.optimizer.weight_decay = 0.1;
  EXPECT_TRUE(c.estimate().groups.empty());
  c.config.optimizer.decay = config::Decay::matrices;
  const std::vector<ParameterGroup> groups = c.estimate().groups;
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].weight_decay, 0);
  EXPECT_EQ(groups[1].weight_decay, 0.1);
  EXPECT_EQ(groups[0].elements + groups[1].elements, c.model.parameters());
  c.config.optimizer.weight_decay = 0;
  EXPECT_TRUE(c.estimate().groups.empty()) << "nothing decays";
}

TEST(DataParallelCost, PowerSgdSendsThinFactorsAndKeepsWhatTheyLeaveOut) {
  Case plain(2);
  plain.config.model.vocab_size = 50'304;
  const ParallelPlan whole = plain.estimate();
  Case thin(2);
  thin.config.model = plain.config.model;
  thin.config.parallel.gradient_compression = config::Compression::powersgd;
  thin.config.parallel.powersgd_rank = 4;
  const ParallelPlan plan = thin.estimate();
  EXPECT_EQ(plan.exchange, "powersgd");
  EXPECT_LT(plan.comm_bytes_per_step, whole.comm_bytes_per_step / 20);
  EXPECT_GT(plan.memory.gradients, 1.9 * static_cast<double>(whole.memory.gradients));
  thin.config.parallel.virtual_ranks = 4;
  EXPECT_EQ(thin.check().front().code, "LS-6010");
  thin.config.parallel.virtual_ranks.reset();
  thin.config.precision.reduce = Dtype::bf16;
  EXPECT_EQ(thin.check().front().code, "LS-6013");
}

TEST(ExchangeCost, OfAMatrixIsItsFactorsWhereThatIsLess) {
  const ExchangeCost& cost = exchange_cost("powersgd");
  EXPECT_EQ(cost.bytes({{1000, 30, 10}, 300'032, false}, 4).sent, 4 * (4 * 1300 + 32));
  EXPECT_EQ(cost.bytes({{1000, 300}, 300'032, true}, 4).errors, 4 * 300'000);
  EXPECT_EQ(cost.bytes({{1000, 300}, 300'032, true}, 4).staged, 4 * (4 * 1300 + 32 + 4 * 300))
      << "what travels, and the right factor of the step before";
  EXPECT_EQ(cost.bytes({{6, 6}, 64, false}, 4).sent, 4 * 64);
  EXPECT_EQ(cost.bytes({{1000}, 1024, false}, 4).sent, 4 * 1024);
}

TEST(DataParallelCost, LocalStepsSendTheStateNowAndThenAndSaveOnlyThen) {
  Case summed(2);
  const ParallelPlan whole = summed.estimate();
  Case local(2);
  local.config.parallel.local_steps = 10;
  EXPECT_LT(local.estimate().comm_bytes_per_step, whole.comm_bytes_per_step / 2);
  local.config.checkpoint.every = 25;
  local.config.run.check_gradients = 5;
  const std::vector<Problem> problems = local.check();
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].code, "LS-6014");
  EXPECT_EQ(problems[0].fix, "set checkpoint.every = 30");
  EXPECT_EQ(problems[1].where, "run.check_gradients");
}

TEST(DataParallelCost, WhatTravelsInLessIsRefusedWhereLocalStepsLetNothingTravel) {
  Case local(2);
  local.config.parallel.local_steps = 8;
  local.config.parallel.gradient_compression = config::Compression::powersgd;
  const auto refused = [&] {
    const std::vector<Problem> problems = local.check();
    return problems.size() == 1 && problems.front().code == "LS-6014";
  };
  EXPECT_TRUE(refused()) << "local from step 0 on";
  EXPECT_EQ(local.check().front().fix,
            "drop it, set parallel.local_steps_from above 0, or drop parallel.local_steps");
  local.config.parallel.local_steps_from = 50;
  EXPECT_TRUE(local.check().empty()) << "powersgd acts in steps 0 to 49";
  local.config.parallel.powersgd_from = 50;
  EXPECT_TRUE(refused());
  EXPECT_EQ(local.check().front().where, "parallel.gradient_compression");
  EXPECT_EQ(local.check().front().fix,
            "drop it, set parallel.local_steps_from above 50, or parallel.powersgd_from below 50");
  local.config.parallel.powersgd_from.reset();
  local.config.schedule.warmup_steps = 60;
  EXPECT_TRUE(refused()) << "powersgd waits for the end of the warm-up";
  local.config.parallel.gradient_compression = config::Compression::none;
  local.config.precision.reduce = Dtype::bf16;
  EXPECT_TRUE(local.check().empty()) << "gradients travel until step 50";
  local.config.parallel.local_steps_from = 0;
  EXPECT_TRUE(refused());
  EXPECT_EQ(local.check().front().where, "precision.reduce");
  local.config.parallel.local_steps = 1;
  EXPECT_TRUE(local.check().empty());
}

TEST(DataParallelCost, KeepsOnePendingSumForEachTreeLevelOfTheRank) {
  Case plain(2, 8);
  const std::int64_t one = plain.estimate().memory.gradients;
  Case ordered(2, 8);
  ordered.plan.batch.ordered = true;
  EXPECT_EQ(ordered.estimate().memory.gradients, 4 * one);
  EXPECT_EQ(ordered.plan.memory.communication, plain.plan.memory.communication);
}

TEST(DataParallelCost, ACheckOfTheGradientsRunsTheWholeBatchOrWithDropoutAMicroBatch) {
  Case c(2, 4);
  const MemoryPlan plain = c.estimate().memory;
  const auto parameters = static_cast<double>(c.model.parameters());
  c.config.run.check_gradients = 100;
  const MemoryPlan whole = c.estimate().memory;
  EXPECT_GT(whole.activations, 7 * plain.activations);
  EXPECT_EQ(whole.gradients, plain.gradients);
  c.config.model.dropout = 0.1;
  const MemoryPlan in_parts = c.estimate().memory;
  c.config.run.check_gradients = 0;
  const MemoryPlan unchecked = c.estimate().memory;
  expect_near_share(in_parts.gradients - unchecked.gradients, 4 * parameters);
  expect_near_share(in_parts.activations - unchecked.activations, 4 * parameters);
}

TEST(DataParallelCost, SendsEveryGradientOnceAStepWhateverTheAccumulation) {
  Case c(2);
  const std::int64_t bytes = c.estimate().comm_bytes_per_step;
  expect_near_share(bytes, 4.0 * static_cast<double>(c.model.parameters()));
  EXPECT_EQ(Case(2, 4).estimate().comm_bytes_per_step, bytes);
  EXPECT_EQ(Case(1).estimate().comm_bytes_per_step, 0);
}

TEST(DataParallelCost, SendsHalfTheBytesInBf16ButForTheLastBucket) {
  Case c(2);
  const std::int64_t fp32 = c.estimate().comm_bytes_per_step;
  c.config.precision.reduce = Dtype::bf16;
  const std::int64_t bf16 = c.estimate().comm_bytes_per_step;
  EXPECT_GT(bf16, fp32 / 2);
  EXPECT_LE(bf16, fp32 / 2 + c.plan.last_bucket_bytes);
}

TEST(DataParallelCost, CountsPrefetchedBatches) {
  Case c(1);
  const std::int64_t two = c.estimate().memory.buffers;
  c.config.data.prefetch = 5;
  const std::int64_t five = c.estimate().memory.buffers;
  EXPECT_EQ(five - two, 3 * 4 * c.model.input_bytes_per_sample);
}

TEST(DataParallelCost, ExposesAtLeastTheLastBucketAndNothingOnOneRank) {
  EXPECT_EQ(Case(1).estimate().exposed_comm_s, 0);
  const ParallelPlan two = Case(2).estimate();
  EXPECT_GT(two.exposed_comm_s, 0);
  EXPECT_LT(two.exposed_comm_s, two.backward_s);
  EXPECT_DOUBLE_EQ(two.step_s,
                   two.forward_s + two.backward_s + two.exposed_comm_s + two.optimizer_s);
}

TEST(DataParallelCost, SharesTheCoresBetweenRanks) {
  Case one(1);
  Case four(4);  // two cores
  one.config.run.threads = 2;
  four.config.run.threads = 2;
  const double fast = one.estimate().forward_s;
  EXPECT_GT(four.estimate().forward_s, 3 * fast);
}

TEST(DataParallelCost, DividesTheCoresHoweverManyRanksThereAre) {
  // The same batch in all: 64 ranks share two cores and have more to say to each other.
  Case two(2, 32);
  Case many(64, 1);
  EXPECT_GE(many.estimate().step_s, two.estimate().step_s);
}

TEST(DataParallelCost, IsSlowerWhereThreadsOfARankWaitForACore) {
  Case one(2);
  Case two(2);  // two threads each, on two cores
  two.config.run.threads = 2;
  EXPECT_GT(two.estimate().forward_s, 1.5 * one.estimate().forward_s);
  Case alone(1);
  alone.config.run.threads = 2;
  EXPECT_LT(alone.estimate().forward_s, one.estimate().forward_s) << "both threads have a core";
}

/// Peak activations of an MLP as a lockstep-worker measured them, in bytes.
struct MeasuredMlp {
  std::int64_t layers, width, micro_batch, measured_bytes;
};

TEST(DataParallelCost, PlansTheActivationsOfAnMlpWithinThreePercentOfMeasurements) {
  for (const MeasuredMlp& mlp : {MeasuredMlp{3, 256, 32, 197'640},
                                 {3, 512, 256, 3'147'784},
                                 {3, 256, 4096, 25'166'856},
                                 {8, 512, 2048, 46'139'400},
                                 {6, 64, 1024, 2'359'560}}) {
    Case c(1);
    c.config.model = {};
    c.config.model.layers = mlp.layers;
    c.config.model.width = mlp.width;
    c.plan.batch.micro_batch = mlp.micro_batch;
    const auto planned = static_cast<double>(c.estimate().memory.activations);
    EXPECT_NEAR(planned / static_cast<double>(mlp.measured_bytes), 1, 0.03)
        << mlp.layers << " x " << mlp.width << ", " << mlp.micro_batch << " samples";
  }
}

TEST(DataParallelCost, PlansTheActivationsOfASmallGptWithinThreePercentOfMeasurements) {
  struct Measured {
    std::int64_t seq_len, micro_batch, measured_bytes;
  };
  for (const Measured& gpt : {Measured{16, 2, 451'848}, {128, 64, 101'023'752}}) {
    Case c(1);
    c.config.model.layers = 2;
    c.config.model.width = 64;
    c.config.model.heads = 2;
    c.config.model.vocab_size = 256;
    c.config.data.seq_len = gpt.seq_len;
    c.plan.batch.micro_batch = gpt.micro_batch;
    const auto planned = static_cast<double>(c.estimate().memory.activations);
    EXPECT_NEAR(planned / static_cast<double>(gpt.measured_bytes), 1, 0.03) << gpt.seq_len;
  }
}

/// A GPT of one block with one sequence: the peak lies in the head or in the embedding, which share
/// their rows.
TEST(DataParallelCost, PlansTheActivationsOfALargeVocabularyWithinOnePercentOfMeasurements) {
  struct Measured {
    Dtype compute;
    std::int64_t vocab_size, seq_len, width, measured_bytes;
  };
  for (const Measured& gpt : {Measured{Dtype::fp32, 50'304, 256, 384, 232'200'000},
                              {Dtype::fp32, 50'304, 256, 768, 464'400'000},
                              {Dtype::fp32, 8'192, 1024, 384, 95'500'000},
                              {Dtype::bf16, 50'304, 256, 384, 154'900'000},
                              {Dtype::bf16, 8'192, 1024, 384, 47'800'000},
                              {Dtype::fp16, 50'304, 256, 384, 197'800'000},
                              {Dtype::fp16, 50'304, 512, 384, 280'500'000},
                              {Dtype::fp16, 8'192, 1024, 384, 85'800'000}}) {
    Case c(1);
    c.config.model.layers = 1;
    c.config.model.width = gpt.width;
    c.config.model.heads = gpt.width / 64;
    c.config.model.vocab_size = gpt.vocab_size;
    c.config.data.seq_len = gpt.seq_len;
    c.config.precision.compute = gpt.compute;
    c.plan.batch.micro_batch = 1;
    const auto planned = static_cast<double>(c.estimate().memory.activations);
    EXPECT_NEAR(planned / static_cast<double>(gpt.measured_bytes), 1, 0.01)
        << gpt.vocab_size << " tokens, " << gpt.seq_len << " x " << gpt.width;
  }
}

TEST(DataParallelCost, CountsTheShareOfOthersGradientsThatARankAddsUp) {
  const auto runtime = [](Case c) { return c.estimate().memory.runtime; };
  Case alone(1);
  const auto gradients = static_cast<double>(alone.estimate().memory.gradients);
  const std::int64_t base = runtime(Case(1));
  // What the allocator keeps grows by an eighth of the group's own memory.
  const double slack = 3'000'000;
  EXPECT_NEAR(static_cast<double>(runtime(Case(2)) - base), gradients / 2, slack);
  EXPECT_NEAR(static_cast<double>(runtime(Case(4)) - base), gradients * 3 / 4, slack);
  Case local(4);
  local.config.parallel.local_steps = 8;
  EXPECT_NEAR(static_cast<double>(runtime(local) - base), 0, slack);
}

/// As Case(ranks), on so many cores.
double step_s(int ranks, int cores) {
  Case c(ranks);
  c.host.cores = cores;
  return c.estimate().step_s;
}

TEST(DataParallelCost, CrowdsRanksByTheCoresThereAreNotByTheirNumber) {
  // The typical core was measured with 1, 2 and, taking turns, 4 ranks.
  EXPECT_NEAR(step_s(4, 8), step_s(2, 8), 0.1 * step_s(2, 8));
  EXPECT_NEAR(step_s(64, 64), step_s(2, 64), 0.1 * step_s(2, 64));
  EXPECT_GT(step_s(4, 2), 1.9 * step_s(2, 2));
  EXPECT_GT(step_s(128, 64), 1.9 * step_s(64, 64));
  EXPECT_NEAR(step_s(128, 64), step_s(4, 2), 0.1 * step_s(4, 2));
}

TEST(DataParallelCost, OfASmallModelHoldsCrowdingTooToWhatIsThere) {
  const auto small = [](int ranks, int cores) {
    Case c(ranks);
    c.config.model = {};
    c.host.cores = cores;
    return c.estimate().step_s;
  };
  EXPECT_NEAR(small(64, 64), small(2, 64), 0.2 * small(2, 64));
  EXPECT_GT(small(4, 2), 1.9 * small(2, 2));
}

TEST(DataParallelCost, RefusesBf16SumsWithVirtualRanks) {
  Case c(2);
  EXPECT_TRUE(c.check().empty());
  c.config.parallel.virtual_ranks = 4;
  EXPECT_TRUE(c.check().empty());
  c.config.precision.reduce = Dtype::bf16;
  const auto problems = c.check();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6010");
}

TEST(StrategyCosts, ListsDataParallel) {
  EXPECT_EQ(strategy_costs().front().name, "data_parallel");
}

}  // namespace
}  // namespace lockstep::parallel
