#include "lockstep/parallel/data_parallel.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/rank_processes.h"

// B samples, F features.
namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFeatures = 37;

/// Two linear layers with a running mean in between, and a parameter that forward may leave out.
struct Net : torch::nn::Module {
  at::Tensor w1 =
      register_parameter("w1", at::sin(at::arange(kFeatures * 70)).view({70, kFeatures}) / 6);
  at::Tensor b1 = register_parameter("b1", at::zeros({70}));
  at::Tensor w2 = register_parameter("w2", at::cos(at::arange(70 * 3)).view({3, 70}) / 8);
  at::Tensor unused = register_parameter("unused", at::ones({5}));
  at::Tensor mean = register_buffer("mean", at::zeros({70}));
  at::Tensor count = register_buffer("count", at::zeros({1}, at::kLong));

  at::Tensor forward(const at::Tensor& x_BF) {
    const at::Tensor hidden = at::relu(at::linear(x_BF.to(w1.scalar_type()), w1, b1));
    const at::NoGradGuard no_grad;
    mean.mul_(0.9).add_(hidden.mean(0).to(at::kFloat), 0.1);
    count.add_(1);
    const at::AutoGradMode grad(true);
    return at::linear(hidden, w2);
  }
};

at::Tensor inputs(std::int64_t first, std::int64_t count) {
  return at::sin(at::arange(first * kFeatures, (first + count) * kFeatures) * 0.7)
      .view({count, kFeatures});
}
at::Tensor classes(std::int64_t first, std::int64_t count) {
  return at::arange(first, first + count).remainder(3);
}

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

DataParallelOptions options_with(std::int64_t leaves, bool ordered) {
  DataParallelOptions options;
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 0.01;
  options.reducer.leaves = leaves;
  options.reducer.ordered = ordered;
  options.reducer.sizes = {1024, 4096, 1024};  // several buckets
  return options;
}

/// Steps of 8 samples, cut into `leaves` parts over the group. \returns the flat parameters.
at::Tensor train(comm::Group& group, Net& net, const DataParallelOptions& options, int steps,
                 std::int64_t batch = 8) {
  DataParallel replica(net, group, options);
  const std::int64_t mine = options.reducer.leaves;
  const std::int64_t leaves = mine * group.size();
  for (int step = 0; step < steps; ++step) {
    replica.begin_step();
    for (std::int64_t i = 0; i < mine; ++i) {
      const std::int64_t leaf = group.rank() * mine + i;
      const std::int64_t first = leaf * batch / leaves;
      const std::int64_t count = (leaf + 1) * batch / leaves - first;
      replica.begin_micro_batch();
      if (count == 0) {
        replica.skip();
        continue;
      }
      const std::int64_t at = step * batch + first;
      replica.backward(cross_entropy_sum(net.forward(inputs(at, count)), classes(at, count)));
    }
    EXPECT_EQ(replica.reduce().weight, batch);
    replica.optimizer_step(0.1);
  }
  std::vector<at::Tensor> flat;
  for (const ParameterViews& v : replica.parameters().views())
    flat.push_back(v.master.reshape({-1}));
  flat.push_back(net.mean.clone());
  return at::cat(flat).clone();
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(DataParallel, TwoRanksTrainAsOneProcess) {
  test::run_ranks(2, [](comm::Group& group) {
    Net net;
    Net single_net;
    const at::Tensor ours = train(group, net, options_with(1, false), 4);
    const at::Tensor reference = train(*alone(), single_net, options_with(2, false), 4);
    // Sums of eight fp32 terms in another order.
    EXPECT_LT(relative_difference(ours, reference), 1e-6);
    EXPECT_EQ(net.count.item<std::int64_t>(), 4);
  });
}

TEST(DataParallel, OrderedSumsGiveTheSameBitsOnOneTwoAndFourRanks) {
  for (const int ranks : {2, 4}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      Net net;
      Net single_net;
      const at::Tensor ours = train(group, net, options_with(4 / group.size(), true), 5);
      const at::Tensor reference = train(*alone(), single_net, options_with(4, true), 5);
      EXPECT_TRUE(at::equal(ours, reference));
    });
  }
}

TEST(DataParallel, AnUnevenLastBatchKeepsTheBitsAndTheSampleWeights) {
  test::run_ranks(4, [](comm::Group& group) {
    Net net;
    Net single_net;
    // 3 samples in 4 parts: one rank has none, and still joins every collective.
    const at::Tensor ours = train(group, net, options_with(1, true), 3, 3);
    const at::Tensor reference = train(*alone(), single_net, options_with(4, true), 3, 3);
    EXPECT_TRUE(at::equal(ours, reference));
  });
}

/// One parameter p = 1 with loss p x sum(token losses): the gradient is the sum of the token
/// losses.
struct Scale : torch::nn::Module {
  at::Tensor p = register_parameter("p", at::ones({1}));
  model::LossSum loss(std::vector<float> tokens) {
    return {(p * at::tensor(tokens)).sum(), static_cast<std::int64_t>(tokens.size())};
  }
};

DataParallelOptions plain_sgd(std::int64_t leaves) {
  DataParallelOptions options;
  options.reducer.leaves = leaves;
  return options;
}

// huggingface/transformers #34191: a mean of means gives 2.50 here.
TEST(DataParallel, TheLossIsAMeanOverTokensAndNotOverMicroBatchesOrRanks) {
  const std::vector<std::vector<float>> parts{{4.0F}, {1.0F, 1.0F, 1.0F}};
  for (const int ranks : {1, 2}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      Scale net;
      DataParallel replica(net, group, plain_sgd(2 / group.size()));
      replica.begin_step();
      for (int i = 0; i < 2 / group.size(); ++i) {
        replica.begin_micro_batch();
        replica.backward(net.loss(parts[static_cast<std::size_t>(group.rank() + i)]));
      }
      const StepSums sums = replica.reduce();
      EXPECT_EQ(sums.weight, 4);
      EXPECT_DOUBLE_EQ(sums.loss_sum / static_cast<double>(sums.weight), 1.75);
      replica.optimizer_step(1.0);
      EXPECT_NEAR(net.p.item<double>(), 1.0 - 1.75, 1e-6);
    });
  }
}

TEST(DataParallel, TokenWeightsHoldOverTwoRanksTimesTwoMicroBatches) {
  test::run_ranks(2, [](comm::Group& group) {
    Scale net;
    DataParallel replica(net, group, plain_sgd(2));
    replica.begin_step();
    const bool first = group.rank() == 0;
    replica.begin_micro_batch();
    replica.backward(net.loss(first ? std::vector<float>{4.0F} : std::vector<float>{1.0F, 1.0F}));
    replica.begin_micro_batch();
    if (first) {
      replica.skip();
    } else {
      replica.backward(net.loss({1.0F}));
    }
    const StepSums sums = replica.reduce();
    EXPECT_DOUBLE_EQ(sums.loss_sum / static_cast<double>(sums.weight), 1.75);
  });
}

// pytorch/pytorch #42577: dividing by the initial world size gives 0.75.
TEST(DataParallel, ARankWithoutSamplesDoesNotShrinkTheGradient) {
  test::run_ranks(4, [](comm::Group& group) {
    Scale net;
    DataParallel replica(net, group, plain_sgd(1));
    replica.begin_step();
    replica.begin_micro_batch();
    if (group.rank() == 3) {
      replica.skip();
    } else {
      replica.backward(net.loss({1.0F}));
    }
    EXPECT_EQ(replica.reduce().weight, 3);
    EXPECT_NEAR(replica.clip_grad_norm(0), 1.0, 1e-7);
  });
}

// ultralytics #18616: the same global batch is the same update, however it is split.
TEST(DataParallel, OneRankOfEightTwoOfFourAndFourOfTwoMakeTheSameUpdate) {
  for (const int ranks : {1, 2, 4}) {
    test::run_ranks(ranks, [](comm::Group& group) {
      Net net;
      Net single_net;
      const at::Tensor ours = train(group, net, options_with(1, false), 1);
      const at::Tensor reference = train(*alone(), single_net, options_with(1, false), 1);
      const std::int64_t buffers = net.mean.numel();  // their means depend on the split
      const std::int64_t n = ours.numel() - buffers;
      EXPECT_LT(relative_difference(ours.narrow(0, 0, n), reference.narrow(0, 0, n)), 1e-6);
    });
  }
}

TEST(DataParallel, AParameterThatNobodyUsedStaysAsItIs) {
  const auto group = alone();
  Net net;
  auto options = options_with(1, false);
  options.optimizer.weight_decay = 0.5;
  (void)train(*group, net, options, 3);
  EXPECT_TRUE(at::equal(net.unused, at::ones({5})));
}

TEST(DataParallel, GradientsAreViewsOfTheBucketsAfterAStep) {
  const auto group = alone();
  Net net;
  DataParallel replica(net, *group, options_with(1, false));
  (void)replica.step(0.1,
                     [&] { return cross_entropy_sum(net.forward(inputs(0, 4)), classes(0, 4)); });
  ASSERT_TRUE(net.w1.grad().defined());
  EXPECT_EQ(net.w1.grad().const_data_ptr<float>(), replica.reducer().gradient(0).data());
}

TEST(DataParallel, TheOrderOfTheFirstStepLaysGradientsOutAnewInTheMemoryThatIsThere) {
  test::run_ranks(2, [](comm::Group& group) {
    Net net;
    DataParallel replica(net, group, options_with(1, false));
    const auto gradient_of_a_step = [&] {
      replica.begin_step();
      replica.begin_micro_batch();
      replica.backward(cross_entropy_sum(net.forward(inputs(0, 4)), classes(0, 4)));
      (void)replica.reduce();
      return net.w2.grad();
    };
    const at::Tensor first = gradient_of_a_step();
    const at::Tensor second = gradient_of_a_step();
    EXPECT_NE(first.storage_offset(), second.storage_offset()) << "an unused one was before it";
    EXPECT_EQ(first.storage().data(), second.storage().data());
  });
}

TEST(DataParallel, Bf16ComputeKeepsFp32Masters) {
  const auto group = alone();
  Net net;
  auto options = options_with(1, false);
  options.compute = config::Dtype::bf16;
  DataParallel replica(net, *group, options);
  EXPECT_EQ(net.w1.scalar_type(), at::kBFloat16);
  for (int i = 0; i < 3; ++i) {
    (void)replica.step(
        0.1, [&] { return cross_entropy_sum(net.forward(inputs(i * 4, 4)), classes(i * 4, 4)); });
  }
  const ParameterViews& w1 = replica.parameters().views()[0];
  EXPECT_EQ(w1.master.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(w1.master.to(at::kBFloat16), net.w1));
  EXPECT_FALSE(at::equal(w1.master, net.w1.to(at::kFloat)));
}

TEST(DataParallel, ADroppedStepLeavesParametersAndBuffersAsTheyWere) {
  const auto group = alone();
  Net net;
  DataParallel replica(net, *group, options_with(1, false));
  const at::Tensor before = net.mean.clone();
  replica.begin_step();
  replica.begin_micro_batch();
  replica.backward(cross_entropy_sum(net.forward(inputs(0, 4)), classes(0, 4)));
  (void)replica.reduce();
  EXPECT_FALSE(at::equal(net.mean, before));
  replica.drop_step();
  EXPECT_TRUE(at::equal(net.mean, before));
}

TEST(DataParallel, ASecondBackwardInOneMicroBatchIsRefused) {
  const auto group = alone();
  Scale net;
  DataParallel replica(net, *group, plain_sgd(1));
  replica.begin_step();
  replica.begin_micro_batch();
  (net.p * 2).sum().backward();
  EXPECT_THROW((net.p * 2).sum().backward(), Error);
}

TEST(DataParallel, ClippingScalesTheUpdateToTheGivenNorm) {
  const auto group = alone();
  Scale net;
  DataParallel replica(net, *group, plain_sgd(1));
  replica.begin_step();
  replica.begin_micro_batch();
  replica.backward(net.loss({3.0F, 5.0F}));
  (void)replica.reduce();
  EXPECT_NEAR(replica.clip_grad_norm(0.5), 4.0, 1e-6);
  replica.optimizer_step(1.0);
  EXPECT_NEAR(net.p.item<double>(), 0.5, 1e-5);
}

}  // namespace
}  // namespace lockstep::parallel
