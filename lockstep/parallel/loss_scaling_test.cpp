#include "lockstep/parallel/loss_scaling.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

// B samples, F features.
namespace lockstep::parallel {
namespace {

using Kind = NotFiniteAt::Kind;

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

DataParallelOptions fp16_options(std::int64_t leaves = 1) {
  DataParallelOptions options;
  options.compute = config::Dtype::fp16;
  options.reducer.leaves = leaves;
  return options;
}

/// 64 equal weights whose gradients are all `slope` a sample: the norm of the mean is 8 |slope|.
struct Slope : torch::nn::Module {
  at::Tensor p = register_parameter("p", at::ones({64}));
  model::LossSum loss(double slope, std::int64_t samples = 4) {
    return {(p.to(at::kFloat) * slope).sum() * samples, samples};
  }
};

/// One step's forward, backward and reduce. \returns what reduce said.
StepSums run_step(DataParallel& replica, Slope& net, double slope) {
  replica.begin_step();
  replica.begin_micro_batch();
  replica.backward(net.loss(slope));
  return replica.reduce();
}

constexpr double kInf = std::numeric_limits<double>::infinity();

// milesial/Pytorch-UNet #468, pytorch/examples #1196: the norm is that of scaled gradients.
TEST(LossScaling, TheNormThatIsClippedIsThatOfTheTrueGradients) {
  const auto group = alone();
  for (const double norm : {0.5, 2.0}) {
    Slope net;
    DataParallel replica(net, *group, fp16_options());
    ASSERT_EQ(replica.loss_scale()->state().scale, 65536);
    (void)run_step(replica, net, norm / 8);
    EXPECT_NEAR(replica.clip_grad_norm(1.0), norm, 1e-6);
    EXPECT_TRUE(replica.optimizer_step(1.0));
    const double moved = 8 * (1 - replica.parameters().views()[0].master[0].item<double>());
    EXPECT_NEAR(moved, std::min(norm, 1.0), 1e-5) << "a norm of " << norm;
  }
}

TEST(LossScaling, AScaledSumOfAnyBatchIsUnscaledExactly) {
  const auto group = alone();
  for (const std::int64_t samples : {1, 3, 8, 1000}) {
    Slope net;
    DataParallel replica(net, *group, fp16_options());
    (void)replica.step(1.0, [&] { return net.loss(0.125, samples); });
    EXPECT_EQ(replica.parameters().views()[0].master[5].item<double>(), 1 - 0.125) << samples;
  }
}

TEST(LossScaling, GradientsThatFp16CannotHoldAreThereWithTheScale) {
  const auto group = alone();
  constexpr double kTiny = 0x1p-30;  // fp16 ends at 2^-24
  Slope net;
  DataParallel replica(net, *group, fp16_options());
  (void)run_step(replica, net, kTiny);
  EXPECT_NEAR(replica.clip_grad_norm(0) / (8 * kTiny), 1, 1e-6);
  auto unscaled = fp16_options();
  unscaled.loss_scale.fixed = 1;
  Slope other;
  DataParallel small(other, *group, unscaled);
  (void)run_step(small, other, kTiny);
  EXPECT_EQ(small.clip_grad_norm(0), 0);
}

at::Tensor masters(DataParallel& replica) {
  std::vector<at::Tensor> flat;
  for (const ParameterViews& v : replica.parameters().views()) {
    flat.push_back(v.master.reshape({-1}));
  }
  return at::cat(flat).clone();
}

TEST(LossScaling, AStepThatOverflowsChangesNothingButTheScale) {
  const auto group = alone();
  Slope net;
  auto options = fp16_options();
  options.optimizer.momentum = 0.9;
  DataParallel replica(net, *group, options);
  (void)replica.step(0.1, [&] { return net.loss(0.25); });
  const at::Tensor before = masters(replica);
  const at::Tensor moment = replica.parameters().views()[0].moment1.clone();
  (void)run_step(replica, net, 2);  // 2 x 65536 is beyond fp16
  EXPECT_FALSE(replica.optimizer_step(0.1));
  EXPECT_TRUE(masters(replica).equal(before));
  EXPECT_TRUE(replica.parameters().views()[0].moment1.equal(moment));
  EXPECT_EQ(replica.updates(), 1);
  EXPECT_EQ(replica.loss_scale()->state(), (optim::LossScaleState{32768, 0}));
  EXPECT_EQ(replica.skips_in_a_row(), 1);
  (void)run_step(replica, net, 1);  // fits now
  EXPECT_TRUE(replica.optimizer_step(0.1));
  EXPECT_FALSE(masters(replica).equal(before));
  EXPECT_EQ(replica.loss_scale()->state(), (optim::LossScaleState{32768, 1}));
  EXPECT_EQ(replica.skips_in_a_row(), 0);
}

TEST(LossScaling, OneRanksOverflowMakesAllRanksSkipAndNamesItAndTheParameter) {
  test::run_ranks(2, [](comm::Group& group) {
    Slope net;
    DataParallel replica(net, group, fp16_options());
    (void)run_step(replica, net, group.rank() == 1 ? 3.0 : 0.01);
    EXPECT_FALSE(replica.optimizer_step(0.1));
    EXPECT_EQ(replica.loss_scale()->state().scale, 32768);
    EXPECT_EQ(replica.not_finite(), (NotFinite{1, "gradient of p"}));
    EXPECT_TRUE(masters(replica).equal(at::ones({64})));
  });
}

/// Two buckets, so that the first one travels in fp16. The gradients of both are `slope` a sample.
struct TwoSlopes : torch::nn::Module {
  at::Tensor a = register_parameter("a", at::ones({64}));
  at::Tensor b = register_parameter("b", at::ones({64}));
  model::LossSum loss(double slope) { return {((a + b).to(at::kFloat) * slope).sum(), 1}; }
};

TEST(LossScaling, AnOverflowOfTheSumAloneMakesAllRanksSkipWhateverTheyComputeIn) {
  test::run_ranks(2, [](comm::Group& group) {
    for (const auto compute : {config::Dtype::fp16, config::Dtype::fp32}) {
      TwoSlopes net;
      DataParallelOptions options;
      options.compute = compute;
      options.loss_scale.fixed = 1;
      options.reducer.exchange = "fp16";
      options.reducer.sizes = {256, 256, 256};
      DataParallel replica(net, group, options);
      for (const double slope : {40'000.0, 0.25}) {  // the first sum is 80,000
        replica.begin_step();
        replica.begin_micro_batch();
        replica.backward(net.loss(slope));
        (void)replica.reduce();
        EXPECT_EQ(replica.optimizer_step(0.1), slope < 1);
        EXPECT_EQ(replica.skips_in_a_row(), slope < 1 ? 0 : 1);
        EXPECT_EQ(masters(replica).equal(at::ones({128})), slope > 1);
        if (slope < 1) continue;
        ASSERT_TRUE(replica.not_finite());
        EXPECT_EQ(to_text(*replica.not_finite()), "first in the fp16 sum of bucket 0: b");
      }
    }
  });
}

TEST(LossScaling, ASumThatIsAlwaysBeyondFp16EndsTheTraining) {
  test::run_ranks(2, [](comm::Group& group) {
    TwoSlopes net;
    DataParallelOptions options;
    options.reducer.exchange = "fp16";
    options.reducer.sizes = {256, 256, 256};
    DataParallel replica(net, group, options);
    int steps = 0;
    try {
      for (; steps < 100; ++steps) (void)replica.step(0.1, [&] { return net.loss(40'000.0); });
    } catch (const Error& error) {
      EXPECT_EQ(error.problems().front().code, "LS-7102");
      EXPECT_EQ(error.problems().front().where, "step 1");
    }
    EXPECT_EQ(steps, optim::kMaxSkippedSteps - 1);
    EXPECT_TRUE(masters(replica).equal(at::ones({128})));
  });
}

TEST(LossScaling, AnOverflowInAnEarlierMicroBatchIsNotForgotten) {
  const auto group = alone();
  for (const bool ordered : {false, true}) {
    Slope net;
    auto options = fp16_options(2);
    options.reducer.ordered = ordered;
    DataParallel replica(net, *group, options);
    replica.begin_step();
    for (const double slope : {3.0, 0.01}) {
      replica.begin_micro_batch();
      replica.backward(net.loss(slope));
    }
    (void)replica.reduce();
    EXPECT_FALSE(replica.optimizer_step(0.1));
    EXPECT_EQ(replica.not_finite(), (NotFinite{0, "gradient of p"}));
  }
}

TEST(LossScaling, AConstantInfinityEndsAfterTenSkipsWithTheParametersAsTheyWere) {
  test::run_ranks(2, [](comm::Group& group) {
    Slope net;
    DataParallel replica(net, group, fp16_options());
    (void)replica.step(0.1, [&] { return net.loss(0.25); });
    const at::Tensor before = masters(replica);
    int skipped = 0;
    try {
      for (; skipped < 100; ++skipped) {
        (void)replica.step(0.1, [&] { return net.loss(group.rank() == 1 ? kInf : 0.25); });
      }
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::failed);
      const Problem& problem = error.problems().front();
      EXPECT_EQ(problem.code, "LS-7104");
      EXPECT_EQ(problem.where, "step 2");
      EXPECT_EQ(problem.what,
                "10 steps in a row were not finite in fp16; the loss scale fell to 64 and did not "
                "help; first on rank 1: the loss; parameters are unchanged");
    }
    EXPECT_EQ(skipped, optim::kMaxSkippedSteps - 1) << "the tenth throws";
    EXPECT_TRUE(masters(replica).equal(before));
  });
}

TEST(LossScaling, AFixedScaleSkipsButStays) {
  const auto group = alone();
  Slope net;
  auto options = fp16_options();
  options.loss_scale.fixed = 1024;
  DataParallel replica(net, *group, options);
  (void)run_step(replica, net, 100);
  EXPECT_FALSE(replica.optimizer_step(0.1));
  EXPECT_EQ(replica.loss_scale()->state().scale, 1024);
}

TEST(LossScaling, OtherTypesHaveNoScaleAndUpdateWhatTheyAreGiven) {
  const auto group = alone();
  for (const config::Dtype type : {config::Dtype::fp32, config::Dtype::bf16}) {
    Slope net;
    auto options = fp16_options();
    options.compute = type;
    DataParallel replica(net, *group, options);
    (void)run_step(replica, net, 3);
    EXPECT_EQ(replica.loss_scale(), nullptr);
    EXPECT_TRUE(replica.optimizer_step(0.1));
  }
}

/// Two linear layers and a norm between them, whose weight stays fp32.
struct Net : torch::nn::Module {
  struct Norm : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({70}));
  };
  at::Tensor w1 = register_parameter("w1", at::sin(at::arange(37 * 70)).view({70, 37}) / 6);
  std::shared_ptr<Norm> norm = register_module("norm", std::make_shared<Norm>());
  at::Tensor w2 = register_parameter("w2", at::cos(at::arange(70 * 3)).view({3, 70}) / 8);

  at::Tensor forward(const at::Tensor& x_BF) {
    const at::Tensor hidden = at::relu(at::linear(x_BF.to(w1.scalar_type()), w1));
    return at::linear(at::layer_norm(hidden, {70}, norm->weight), w2);
  }
};

model::LossSum loss_of(Net& net, std::int64_t first, std::int64_t count) {
  const at::Tensor x_BF = at::sin(at::arange(first * 37, (first + count) * 37) * 0.7);
  return cross_entropy_sum(net.forward(x_BF.view({count, 37})),
                           at::arange(first, first + count).remainder(3));
}

/// Steps of 16 samples in four leaves over the group. \returns parameters, scale and good steps.
at::Tensor train(comm::Group& group, DataParallelOptions options, int steps) {
  Net net;
  options.optimizer.momentum = 0.9;
  options.reducer.leaves = 4 / group.size();
  options.reducer.ordered = true;
  options.reducer.sizes = {1024, 4096, 1024};
  options.loss_scale.batch_weight = 16;
  DataParallel replica(net, group, options);
  for (int step = 0; step < steps; ++step) {
    replica.begin_step();
    for (std::int64_t i = 0; i < options.reducer.leaves; ++i) {
      const std::int64_t leaf = group.rank() * options.reducer.leaves + i;
      replica.begin_micro_batch();
      replica.backward(loss_of(net, step * 16 + leaf * 4, 4));
    }
    (void)replica.reduce();
    (void)replica.clip_grad_norm(0.5);
    (void)replica.optimizer_step(0.1);
  }
  const optim::LossScaleState state =
      replica.loss_scale() != nullptr ? replica.loss_scale()->state() : optim::LossScaleState{};
  return at::cat({masters(replica),
                  at::tensor({state.scale, static_cast<double>(state.good_steps)}).to(at::kFloat)});
}

/// Starts so high that the first steps overflow, and grows again soon.
DataParallelOptions restless() {
  DataParallelOptions options = fp16_options();
  options.loss_scale.initial = 0x1p26;
  options.loss_scale.growth_interval = 3;
  return options;
}

TEST(LossScaling, OneTwoAndFourRanksGiveTheSameBitsAndTheSameScale) {
  for (const int ranks : {2, 4}) {
    test::run_ranks(ranks, [](comm::Group& group) {
      const at::Tensor ours = train(group, restless(), 12);
      const at::Tensor reference = train(*alone(), restless(), 12);
      EXPECT_TRUE(at::equal(ours, reference));
      const at::Tensor scale = ours[ours.numel() - 2];
      EXPECT_LT(scale.item<double>(), 0x1p26);
      EXPECT_GT(scale.item<double>(), 1);
    });
  }
}

TEST(LossScaling, TrainingInFp16StaysCloseToFp32) {
  const auto group = alone();
  DataParallelOptions fp32;
  const at::Tensor wide = train(*group, fp32, 10);
  const at::Tensor narrow = train(*group, fp16_options(), 10);
  const std::int64_t n = wide.numel() - 2;
  const at::Tensor start = train(*group, fp32, 0);
  const double moved = (wide - start).narrow(0, 0, n).norm().item<double>();
  EXPECT_LT((narrow - wide).narrow(0, 0, n).norm().item<double>(), 0.01 * moved);
}

TEST(LossScaling, TheUserSeesTrueGradientsOfWhatStaysFp32) {
  const auto group = alone();
  Net net;
  Net reference;
  DataParallel replica(net, *group, fp16_options());
  (void)replica.step(0.1, [&] { return loss_of(net, 0, 8); });
  EXPECT_EQ(net.norm->weight.scalar_type(), at::kFloat);
  loss_of(reference, 0, 8).sum.backward();
  const at::Tensor expected = reference.norm->weight.grad();
  const double difference = (net.norm->weight.grad() - expected).norm().item<double>();
  EXPECT_LT(difference, 0.01 * expected.norm().item<double>());
}

TEST(LossScaling, ComputeWeightsAreTheMastersRoundedToFp16) {
  const auto group = alone();
  Net net;
  DataParallel replica(net, *group, fp16_options());
  for (int i = 0; i < 3; ++i) (void)replica.step(0.1, [&] { return loss_of(net, i * 8, 8); });
  const ParameterViews& w1 = replica.parameters().views()[0];
  EXPECT_EQ(net.w1.scalar_type(), at::kHalf);
  EXPECT_EQ(w1.master.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(w1.master.to(at::kHalf), net.w1));
  EXPECT_FALSE(at::equal(w1.master, net.w1.to(at::kFloat)));
}

TEST(FirstNotFinite, IsTheEarliestInAStepAndOfEqualsTheLowestRanks) {
  const PlaceNames names{{"w", "b"}, {"stem", "head"}};
  EXPECT_EQ(first_not_finite({{}, {}}, names), std::nullopt);
  EXPECT_EQ(first_not_finite({{}, {Kind::gradient, 1}}, names), (NotFinite{1, "gradient of b"}));
  EXPECT_EQ(first_not_finite({{Kind::gradient, 0}, {Kind::loss, 0}}, names),
            (NotFinite{1, "the loss"}));
  EXPECT_EQ(first_not_finite({{Kind::loss, 0}, {Kind::gradient, 0}, {Kind::output, 1}}, names),
            (NotFinite{2, "output of head"}));
  EXPECT_EQ(first_not_finite({{}, {Kind::output, 1}, {Kind::output, 0}}, names),
            (NotFinite{1, "output of head"}));
}

}  // namespace
}  // namespace lockstep::parallel
