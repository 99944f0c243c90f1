#include "lockstep/parallel/sync_batch_norm.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

// B samples, C channels, H W pixels.
namespace lockstep::parallel {
namespace {

constexpr std::int64_t kChannels = 5;

at::Tensor images(std::int64_t first, std::int64_t count) {
  const std::int64_t pixels = kChannels * 4 * 4;
  return at::sin(at::arange(first * pixels, (first + count) * pixels) * 0.37)
      .view({count, kChannels, 4, 4});
}
at::Tensor classes(std::int64_t first, std::int64_t count) {
  return at::arange(first, first + count).remainder(3);
}

/// A normalisation between a pointwise convolution and a linear layer.
struct Net : torch::nn::Module {
  explicit Net(comm::Group& statistics)
      : bn(register_module("bn", SyncBatchNorm(kChannels, statistics))) {}

  at::Tensor mix =
      register_parameter("mix", at::sin(at::arange(kChannels* kChannels)).view({5, 5, 1, 1}));
  at::Tensor out = register_parameter("out", at::cos(at::arange(3 * kChannels)).view({3, 5}));
  SyncBatchNorm bn;

  at::Tensor forward(const at::Tensor& x_BCHW) {
    const at::Tensor hidden = bn(at::conv2d(x_BCHW.to(mix.scalar_type()), mix));
    return at::linear(at::relu(hidden).mean({2, 3}), out);
  }
};

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

/// Steps over `batch` samples, of which rank r has those from cuts[r] to cuts[r + 1]. \returns the
/// parameters and buffers, and the mean losses.
at::Tensor train(comm::Group& group, comm::Group& statistics, const std::vector<std::int64_t>& cuts,
                 config::Dtype compute = config::Dtype::fp32) {
  Net net(statistics);
  DataParallelOptions options;
  options.optimizer.momentum = 0.9;
  options.compute = compute;
  options.reducer.sizes = {64, 128, 64};  // several buckets
  DataParallel replica(net, group, options);
  const auto rank = static_cast<std::size_t>(group.rank());
  const std::int64_t count = cuts[rank + 1] - cuts[rank];
  std::vector<at::Tensor> flat;
  for (int step = 0; step < 4; ++step) {
    const std::int64_t first = step * cuts.back() + cuts[rank];
    const double loss = replica.step(0.1, [&] {
      return cross_entropy_sum(net.forward(images(first, count)), classes(first, count));
    });
    flat.push_back(at::full({1}, loss, at::kFloat));
  }
  for (const ParameterViews& v : replica.parameters().views())
    flat.push_back(v.master.reshape({-1}));
  flat.push_back(net.bn->running_mean);
  flat.push_back(net.bn->running_var);
  EXPECT_EQ(net.bn->num_batches_tracked.item<std::int64_t>(), 4);
  return at::cat(flat).clone();
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(SyncBatchNorm, TrainsAsOneProcessWithTheWholeBatchHoweverItIsCut) {
  const std::vector<std::vector<std::int64_t>> cuts{
      {0, 3, 6}, {0, 5, 6}, {0, 6, 6}, {0, 1, 4, 6}, {0, 0, 6, 6, 6}};
  for (const auto& cut : cuts) {
    test::run_ranks(static_cast<int>(cut.size()) - 1, [&](comm::Group& group) {
      const auto statistics = test::join_another(group, "statistics");
      const at::Tensor ours = train(group, *statistics, cut);
      const at::Tensor reference = train(*alone(), *alone(), {0, 6});
      EXPECT_LT(relative_difference(ours, reference), 2e-6);
      const at::Tensor all = at::empty({group.size(), ours.numel()});
      group.all_gather(all, ours)->wait();
      for (int r = 0; r < group.size(); ++r) EXPECT_TRUE(all[r].equal(ours)) << r;
    });
  }
}

TEST(SyncBatchNorm, SharesTheGroupOfTheGradientsWhereItMust) {
  test::run_ranks(2, [](comm::Group& group) {
    const at::Tensor ours = train(group, group, {0, 4, 6});
    EXPECT_LT(relative_difference(ours, train(*alone(), *alone(), {0, 6})), 2e-6);
  });
}

TEST(SyncBatchNorm, KeepsFp32StatisticsUnderBf16Compute) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto statistics = test::join_another(group, "statistics");
    const at::Tensor ours = train(group, *statistics, {0, 5, 6}, config::Dtype::bf16);
    // Weights and activations have eight bits.
    EXPECT_LT(relative_difference(ours, train(*alone(), *alone(), {0, 6})), 2e-2);
  });
}

TEST(SyncBatchNorm, AloneIsLibTorchsLayerWithItsNamesAndOptions) {
  const auto group = alone();
  SyncBatchNorm bn(torch::nn::BatchNormOptions(3).eps(0.1).momentum(std::nullopt), *group);
  const auto parameters = bn->named_parameters();
  EXPECT_TRUE(parameters.contains("weight"));
  EXPECT_TRUE(parameters.contains("bias"));
  const auto buffers = bn->named_buffers();
  EXPECT_TRUE(buffers.contains("running_mean"));
  EXPECT_TRUE(buffers.contains("running_var"));
  EXPECT_TRUE(buffers.contains("num_batches_tracked"));
  const at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  (void)bn->forward(x);
  (void)bn->forward(x + 2);
  // Without a momentum: the mean over all batches.
  EXPECT_TRUE(bn->running_mean.allclose(x.mean(0) + 1));
  bn->eval();
  const at::Tensor expected = (x - bn->running_mean) / (bn->running_var + 0.1).sqrt();
  EXPECT_TRUE(bn->forward(x).allclose(expected));
}

TEST(SyncBatchNorm, WithoutTensorsOfItsOwnItNormalisesOnly) {
  test::run_ranks(2, [](comm::Group& group) {
    SyncBatchNorm bn(torch::nn::BatchNormOptions(2).affine(false).track_running_stats(false),
                     group);
    EXPECT_TRUE(bn->parameters().empty());
    const at::Tensor whole = at::arange(12, at::kDouble).view({6, 2});
    const at::Tensor ours = bn->forward(whole.narrow(0, group.rank() * 3, 3));
    const at::Tensor expected = at::batch_norm(whole, {}, {}, {}, {}, true, 0.1, 1e-5, false);
    EXPECT_TRUE(ours.allclose(expected.narrow(0, group.rank() * 3, 3)));
  });
}

TEST(SyncBatchNorm, RefusesChannelsThatItDoesNotHave) {
  test::run_ranks(2, [](comm::Group& group) {
    SyncBatchNorm bn(4, group);
    EXPECT_THROW((void)bn->forward(at::zeros({2, 5})), c10::Error);
    EXPECT_THROW((void)bn->forward(at::zeros({4})), c10::Error);
  });
}

}  // namespace
}  // namespace lockstep::parallel
