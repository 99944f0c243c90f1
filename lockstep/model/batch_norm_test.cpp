#include "lockstep/model/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/layers.h"
#include "lockstep/model/model_testing.h"

// B samples, C channels.
namespace lockstep::model {
namespace {

/// Ranks that are threads of this process. A backward of CPU tensors runs in the thread that asks.
class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : meeting_(ranks), slots_(static_cast<std::size_t>(ranks)) {}

  void run(const std::function<void(int rank, const SharedExchange& exchange)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < static_cast<int>(slots_.size()); ++r) {
      threads.emplace_back([&, r] { body(r, c10::make_intrusive<Exchange>(*this, r)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class Exchange : public StatisticsExchange {
   public:
    Exchange(ThreadRanks& ranks, int rank) : ranks_(ranks), rank_(static_cast<std::size_t>(rank)) {}
    at::Tensor gather(const at::Tensor& own) override {
      ranks_.slots_[rank_] = own.clone();
      ranks_.meeting_.arrive_and_wait();
      at::Tensor all = at::stack(ranks_.slots_);
      ranks_.meeting_.arrive_and_wait();
      return all;
    }
    at::Tensor sum(const at::Tensor& own) override { return gather(own).sum(0); }

   private:
    ThreadRanks& ranks_;
    std::size_t rank_;
  };

  std::barrier<> meeting_;
  std::vector<at::Tensor> slots_;
};

/// A layer's tensors, apart for each rank.
BatchNormTensors layer(std::int64_t channels, at::ScalarType type = at::kFloat) {
  const at::Tensor ramp = at::arange(channels, at::kDouble).to(type) / 7;
  BatchNormTensors tensors{1 + ramp.sin() / 2, ramp.cos(), at::zeros({channels}, type),
                           at::ones({channels}, type)};
  tensors.weight.requires_grad_();
  tensors.bias.requires_grad_();
  return tensors;
}

at::Tensor copy_of(const at::Tensor& values, at::ScalarType type) {
  at::Tensor copy = values.to(type).detach().clone(at::MemoryFormat::Preserve);
  copy.requires_grad_();
  return copy;
}

/// A gradient of the output whose sums do not cancel: their digits can be compared.
at::Tensor slope_for(const at::Tensor& values) { return values / 2 + at::randn_like(values); }

/// LibTorch's own formula, in fp64.
at::Tensor plain(const at::Tensor& input, const BatchNormTensors& tensors) {
  return at::batch_norm(input, tensors.weight, tensors.bias, tensors.running_mean,
                        tensors.running_var, /*training=*/true, 0.1, 1e-5, false);
}

struct Case {
  std::vector<std::int64_t> shape;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

const std::vector<Case> kCases{
    {{70, 40}},
    {{300, 3}},
    {{4, 5, 33}},
    {{3, 19, 7, 5}},
    {{6, 1, 20, 20}},
    {{2, 3, 70, 70}},
    {{5, 16, 9, 9}, at::MemoryFormat::ChannelsLast},
    {{9, 77, 12, 12}, at::MemoryFormat::ChannelsLast},
    {{40, 10, 1, 1}, at::MemoryFormat::ChannelsLast},
    {{2, 6, 3, 4, 5}},
    {{2, 24, 3, 4, 5}, at::MemoryFormat::ChannelsLast3d},
};

// One unit in the last place of the type, with room for a few roundings.
double tolerance(at::ScalarType type) {
  if (type == at::kDouble) return 1e-12;
  if (type == at::kFloat) return 1e-6;
  return type == at::kHalf ? 1e-3 : 8e-3;
}

TEST(BatchNormOverRanks, EqualsLibTorchsOnOneRankInEveryLayoutAndType) {
  for (const Case& c : kCases) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      const at::Tensor values = (at::randn(c.shape) * 2 + 3).contiguous(c.format);
      const at::Tensor ours = copy_of(values, type);
      const at::Tensor theirs = copy_of(ours, at::kDouble);
      const at::Tensor slope = slope_for(values).to(type);
      const BatchNormTensors our_layer =
          layer(c.shape[1], type == at::kDouble ? at::kDouble : at::kFloat);
      const BatchNormTensors their_layer = layer(c.shape[1], at::kDouble);
      ThreadRanks(1).run([&](int, const SharedExchange& exchange) {
        const at::Tensor out = batch_norm_over_ranks(ours, our_layer, {}, exchange);
        EXPECT_EQ(out.scalar_type(), type);
        EXPECT_EQ(out.strides(), ours.strides());
        out.backward(slope);
        const at::Tensor expected = plain(theirs, their_layer);
        expected.backward(slope.to(at::kDouble));
        const double limit = tolerance(type);
        EXPECT_LT(relative_error(out, expected), limit) << c.shape;
        EXPECT_LT(relative_error(ours.grad(), theirs.grad()), 2 * limit) << c.shape;
        EXPECT_EQ(ours.grad().strides(), ours.strides());
      });
      // Sums of narrow values are fp32 and fp64.
      const double limit = type == at::kDouble ? 1e-12 : 2e-6;
      EXPECT_LT(relative_error(our_layer.weight.grad(), their_layer.weight.grad()), limit);
      EXPECT_LT(relative_error(our_layer.bias.grad(), their_layer.bias.grad()), limit);
      EXPECT_LT(relative_error(our_layer.running_mean, their_layer.running_mean), limit);
      EXPECT_LT(relative_error(our_layer.running_var, their_layer.running_var), limit);
    }
  }
}

/// Results of one rank.
struct Result {
  at::Tensor out;
  at::Tensor input_gradient;
  BatchNormTensors tensors;
};

std::vector<Result> over_ranks(const at::Tensor& whole, const at::Tensor& slope,
                               const std::vector<std::int64_t>& samples) {
  std::vector<Result> results(samples.size());
  ThreadRanks(static_cast<int>(samples.size())).run([&](int rank, const SharedExchange& exchange) {
    const auto r = static_cast<std::size_t>(rank);
    std::int64_t first = 0;
    for (std::size_t before = 0; before < r; ++before) first += samples[before];
    const at::Tensor input = copy_of(whole.narrow(0, first, samples[r]), whole.scalar_type());
    const BatchNormTensors tensors = layer(whole.size(1));
    const at::Tensor out = batch_norm_over_ranks(input, tensors, {}, exchange);
    out.backward(slope.narrow(0, first, samples[r]));
    results[r] = {out, input.grad(), tensors};
  });
  return results;
}

at::Tensor joined(const std::vector<Result>& results,
                  const std::function<at::Tensor(const Result&)>& part) {
  std::vector<at::Tensor> parts;
  for (const Result& result : results) parts.push_back(part(result));
  return at::cat(parts);
}

at::Tensor summed(const std::vector<Result>& results,
                  const std::function<at::Tensor(const Result&)>& part) {
  at::Tensor sum;
  for (const Result& result : results) sum = sum.defined() ? sum + part(result) : part(result);
  return sum;
}

TEST(BatchNormOverRanks, EqualsOneProcessWithTheWholeBatchHoweverItIsCut) {
  const std::vector<std::vector<std::int64_t>> cuts{{8},       {4, 4},       {7, 1},      {8, 0},
                                                    {0, 5, 3}, {1, 1, 5, 1}, {2, 0, 0, 6}};
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor whole = (at::randn({8, 19, 6, 6}) - 2).contiguous(format);
    const at::Tensor slope = slope_for(whole);
    const at::Tensor theirs = copy_of(whole, at::kDouble);
    const BatchNormTensors their_layer = layer(19, at::kDouble);
    const at::Tensor expected = plain(theirs, their_layer);
    expected.backward(slope.to(at::kDouble));
    for (const auto& cut : cuts) {
      const std::vector<Result> results = over_ranks(whole, slope, cut);
      const auto out = joined(results, [](const Result& r) { return r.out; });
      const auto gradient = joined(results, [](const Result& r) { return r.input_gradient; });
      const auto weight = summed(results, [](const Result& r) { return r.tensors.weight.grad(); });
      const auto bias = summed(results, [](const Result& r) { return r.tensors.bias.grad(); });
      EXPECT_LT(relative_error(out, expected), 1e-6);
      EXPECT_LT(relative_error(gradient, theirs.grad()), 1e-6);
      EXPECT_LT(relative_error(weight, their_layer.weight.grad()), 1e-6);
      EXPECT_LT(relative_error(bias, their_layer.bias.grad()), 1e-6);
      for (const Result& result : results) {
        EXPECT_LT(relative_error(result.tensors.running_mean, their_layer.running_mean), 1e-6);
        EXPECT_LT(relative_error(result.tensors.running_var, their_layer.running_var), 1e-6);
        EXPECT_TRUE(result.tensors.running_mean.equal(results.front().tensors.running_mean));
        EXPECT_TRUE(result.tensors.running_var.equal(results.front().tensors.running_var));
      }
    }
  }
}

TEST(BatchNormOverRanks, NarrowTypesHaveTheStatisticsOfTheirValues) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor whole = (at::randn({9, 32, 5, 5}) + 1).to(type);
    const at::Tensor slope = slope_for(whole.to(at::kFloat)).to(type);
    const at::Tensor theirs = copy_of(whole, at::kDouble);
    const BatchNormTensors their_layer = layer(32, at::kDouble);
    const at::Tensor expected = plain(theirs, their_layer);
    expected.backward(slope.to(at::kDouble));
    const std::vector<Result> results = over_ranks(whole, slope, {2, 6, 1});
    const auto out = joined(results, [](const Result& r) { return r.out; });
    const auto gradient = joined(results, [](const Result& r) { return r.input_gradient; });
    const auto weight = summed(results, [](const Result& r) { return r.tensors.weight.grad(); });
    EXPECT_LT(relative_error(out, expected), tolerance(type));
    EXPECT_LT(relative_error(gradient, theirs.grad()), tolerance(type));
    EXPECT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_LT(relative_error(weight, their_layer.weight.grad()), 2e-6);
    EXPECT_LT(relative_error(results[0].tensors.running_var, their_layer.running_var), 1e-6);
  }
}

TEST(BatchNormOverRanks, KeepsTheDigitsOfASmallVarianceAroundALargeMean) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor whole = (at::randn({64, 16, 8, 8}) + 1000).contiguous(format);
    const std::vector<Result> results = over_ranks(whole, at::ones_like(whole), {40, 24});
    const at::Tensor variance = whole.to(at::kDouble).var({0, 2, 3});
    const at::Tensor expected = 0.9 + 0.1 * variance;
    EXPECT_LT(relative_error(results[1].tensors.running_var, expected), 1e-6);
  }
}

TEST(BatchNormOverRanks, GivesTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const at::Tensor whole = at::randn({40, 32, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  std::vector<Result> results;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    results.push_back(over_ranks(whole, whole.sin(), {40}).front());
  }
  at::set_num_threads(before);
  for (const Result& result : results) {
    EXPECT_TRUE(result.out.equal(results.front().out));
    EXPECT_TRUE(result.input_gradient.equal(results.front().input_gradient));
    EXPECT_TRUE(result.tensors.weight.grad().equal(results.front().tensors.weight.grad()));
  }
}

TEST(BatchNormOverRanks, WithoutAnySampleOnAnyRankNothingMoves) {
  const std::vector<Result> results =
      over_ranks(at::empty({0, 4, 3, 3}), at::empty({0, 4, 3, 3}), {0, 0});
  for (const Result& result : results) {
    EXPECT_EQ(result.out.sizes(), (std::vector<std::int64_t>{0, 4, 3, 3}));
    EXPECT_TRUE(result.tensors.running_mean.equal(at::zeros({4})));
    EXPECT_TRUE(result.tensors.running_var.equal(at::ones({4})));
    EXPECT_TRUE(result.tensors.weight.grad().equal(at::zeros({4})));
  }
}

TEST(BatchNormOverRanks, OneValueAChannelOverAllRanksStaysFinite) {
  const at::Tensor one = at::full({1, 4}, 5.0);
  const std::vector<Result> results = over_ranks(one, at::ones({1, 4}), {0, 1});
  EXPECT_TRUE(results[1].out.isfinite().all().item<bool>());
  EXPECT_TRUE(results[1].input_gradient.isfinite().all().item<bool>());
  EXPECT_TRUE(results[0].tensors.running_var.allclose(at::full({4}, 0.9)));
  EXPECT_TRUE(results[0].tensors.running_mean.allclose(at::full({4}, 0.5)));
}

TEST(BatchNormOverRanks, PassesNanOn) {
  at::Tensor whole = at::randn({8, 4});
  whole[6][2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Result> results = over_ranks(whole, at::ones({8, 4}), {4, 4});
  for (const Result& result : results) {
    const at::Tensor nan = result.out.isnan().all(0);
    EXPECT_TRUE(nan.equal(at::arange(4) == 2));
    EXPECT_TRUE(result.tensors.running_var[2].isnan().item<bool>());
  }
}

TEST(BatchNormOverRanks, LeavesOutTheBackwardCollectiveOfAnInputWithoutGradient) {
  class Once : public StatisticsExchange {
   public:
    at::Tensor gather(const at::Tensor& own) override { return own.unsqueeze(0); }
    at::Tensor sum(const at::Tensor& own) override {
      ADD_FAILURE() << "nobody needs the gradient of the input";
      return own;
    }
  };
  const BatchNormTensors tensors = layer(3);
  batch_norm_over_ranks(at::randn({5, 3}), tensors, {}, c10::make_intrusive<Once>())
      .sum()
      .backward();
  EXPECT_TRUE(tensors.bias.grad().allclose(at::full({3}, 5.0)));
}

TEST(BatchNormOverRanks, RefusesASecondDerivative) {
  ThreadRanks(1).run([&](int, const SharedExchange& exchange) {
    const at::Tensor input = copy_of(at::randn({5, 3}), at::kFloat);
    const at::Tensor out = batch_norm_over_ranks(input, layer(3), {}, exchange);
    try {
      (void)torch::autograd::grad({out.sum()}, {input}, {}, /*retain_graph=*/true,
                                  /*create_graph=*/true);
      FAIL() << "a gradient of a gradient came out";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.problems().front().code, "LS-7003");
    }
  });
}

TEST(BatchNorm, AsksTheOtherRanksInTrainingOnly) {
  ThreadRanks(2).run([&](int rank, const SharedExchange& exchange) {
    BatchNorm norm(3);
    norm.set_exchange(exchange);
    const at::Tensor whole = at::arange(24).to(at::kFloat).view({8, 3});
    (void)norm.forward(whole.narrow(0, rank * 4, 4));
    EXPECT_TRUE(norm.running_mean.allclose(whole.mean(0) * 0.1));
    norm.eval();
    if (rank == 1) return;  // the other goes on alone
    const at::Tensor expected =
        at::batch_norm(whole, norm.weight, norm.bias, norm.running_mean, norm.running_var,
                       /*training=*/false, 0.1, 1e-5, false);
    EXPECT_TRUE(norm.forward(whole).equal(expected));
  });
}

TEST(MergeMoments, PassesOverRowsWithoutSamples) {
  const at::Tensor rows = at::tensor({0., 9., 9., 2., 1., 8., 0., 7., 7., 4., 4., 1.}, at::kDouble);
  const at::Tensor merged = merge_moments(rows.view({4, 3}));
  // Means 1 and 4 of 2 and 4 samples: 3, and 8 + 1 + 3 x 3 x 2 x 4 / 6.
  EXPECT_TRUE(merged.allclose(at::tensor({6., 3., 21.}, at::kDouble)));
}

}  // namespace
}  // namespace lockstep::model
