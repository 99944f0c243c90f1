// Gradients that are not one dense tensor per parameter and step: shared, sparse, missing.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

// B samples, T tokens, V words, C features.
namespace lockstep::parallel {
namespace {

constexpr std::int64_t kWords = 11;
constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kTokens = 5;
constexpr double kRate = 0.02;

at::Tensor waves(std::int64_t rows, std::int64_t columns, double phase) {
  return at::sin(at::arange(rows * columns) * 0.7 + phase).view({rows, columns});
}

/// A language model of one layer: the embedding may be the output matrix too, and give sparse
/// gradients; `gain` can be frozen.
struct WordNet : torch::nn::Module {
  explicit WordNet(bool tied, bool sparse) : sparse_(sparse) {
    embedding = register_parameter("embedding", waves(kWords, kWidth, 0));
    mix = register_parameter("mix", waves(kWidth, kWidth, 1));
    gain = register_parameter("gain", at::full({kWidth}, 1.25));
    output = register_parameter("output", tied ? embedding : waves(kWords, kWidth, 2));
  }

  model::LossSum loss(const at::Tensor& ids_BT, const at::Tensor& next_BT) {
    const at::Tensor x_BTC = at::embedding(embedding, ids_BT, -1, false, sparse_);
    const at::Tensor h_BTC = at::relu(at::linear(x_BTC, mix)) * gain;
    const at::Tensor logits = at::linear(h_BTC, output).view({-1, kWords});
    return cross_entropy_sum(logits, next_BT.reshape({-1}));
  }

  at::Tensor embedding;  // [V,C]
  at::Tensor mix;        // [C,C]
  at::Tensor gain;       // [C]
  at::Tensor output;     // [V,C]

 private:
  bool sparse_;
};

/// Words come several times in a sample, and some words in no sample of a part.
at::Tensor words(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t shift) {
  const at::Tensor ids =
      at::arange(first * kTokens, (first + count) * kTokens) * (step + 3) + shift;
  return (ids * ids).remainder(kWords).view({count, kTokens});
}

struct Case {
  const char* name;
  bool tied = false;
  bool sparse = false;
  bool frozen_before = false;  // `gain`, before the replica is made
  bool frozen_after = false;   // after it
};

constexpr Case kCases[] = {{.name = "tied", .tied = true},
                           {.name = "sparse", .sparse = true},
                           {.name = "sparse and tied", .tied = true, .sparse = true},
                           {.name = "frozen before", .sparse = true, .frozen_before = true},
                           {.name = "frozen after", .tied = true, .frozen_after = true}};

/// SGD by plain autograd, the whole batch in one process.
void train_plainly(WordNet& net, int steps) {
  std::vector<at::Tensor> parameters{net.embedding, net.mix, net.gain};
  if (!net.output.is_same(net.embedding)) parameters.push_back(net.output);
  for (int step = 0; step < steps; ++step) {
    for (at::Tensor& p : parameters) p.mutable_grad().reset();
    const model::LossSum loss = net.loss(words(step, 0, kBatch, 0), words(step, 0, kBatch, 1));
    loss.sum.backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : parameters) {
      if (!p.grad().defined()) continue;
      const at::Tensor dense = p.grad().is_sparse() ? p.grad().to_dense() : p.grad();
      p.sub_(dense, kRate / static_cast<double>(loss.weight));
    }
  }
}

void train_over_ranks(WordNet& net, comm::Group& group, const Case& how, bool ordered,
                      std::int64_t leaves, int steps) {
  DataParallelOptions options;
  options.reducer.leaves = leaves;
  options.reducer.ordered = ordered;
  options.reducer.sizes = {64, 256, 64};  // bytes: several buckets
  if (how.frozen_before) net.gain.set_requires_grad(false);
  DataParallel replica(net, group, options);
  if (how.frozen_after) net.gain.set_requires_grad(false);
  const std::int64_t count = kBatch / (leaves * group.size());
  for (int step = 0; step < steps; ++step) {
    replica.begin_step();
    for (std::int64_t i = 0; i < leaves; ++i) {
      const std::int64_t first = (group.rank() * leaves + i) * count;
      replica.begin_micro_batch();
      replica.backward(net.loss(words(step, first, count, 0), words(step, first, count, 1)));
    }
    EXPECT_EQ(replica.reduce().weight, kBatch * kTokens);
    replica.optimizer_step(kRate);
  }
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(GradientKinds, TwoRanksWithAccumulationTrainAsPlainAutogradInOneProcess) {
  for (const Case& how : kCases) {
    test::run_ranks(2, [&](comm::Group& group) {
      for (const bool ordered : {false, true}) {
        for (const std::int64_t leaves : {1, 2}) {
          WordNet ours(how.tied, how.sparse);
          WordNet plain(how.tied, how.sparse);
          if (how.frozen_before || how.frozen_after) plain.gain.set_requires_grad(false);
          train_over_ranks(ours, group, how, ordered, leaves, 4);
          train_plainly(plain, 4);
          const auto expected = plain.named_parameters();
          for (const auto& p : ours.named_parameters()) {
            // Sums of 40 fp32 terms in another order.
            EXPECT_LT(relative_difference(p.value(), expected[p.key()]), 2e-6)
                << how.name << ": " << p.key() << ", " << leaves << " micro-batches";
          }
          EXPECT_EQ(at::equal(ours.gain, at::full({kWidth}, 1.25)),
                    how.frozen_before || how.frozen_after);
        }
      }
    });
  }
}

TEST(GradientKinds, ASparseGradientInBf16IsSummedInFp32) {
  test::run_ranks(2, [](comm::Group& group) {
    struct Table : torch::nn::Module {
      at::Tensor rows = register_parameter("rows", at::zeros({4, 2}));
    } table;
    DataParallelOptions options;
    options.compute = config::Dtype::bf16;
    DataParallel replica(table, group, options);
    replica.begin_step();
    replica.begin_micro_batch();
    // Row 1 comes 300 times: in bf16 the sum would stop growing at 256.
    const at::Tensor ids = at::full({300}, 1, at::kLong);
    const at::Tensor x = at::embedding(table.rows, ids, -1, false, /*sparse=*/true);
    replica.backward({x.to(at::kFloat).sum(), 300});
    EXPECT_EQ(replica.reduce().weight, 600);
    const auto gradient = replica.reducer().gradient(0);
    EXPECT_EQ(std::vector<float>(gradient.begin(), gradient.end()),
              (std::vector<float>{0, 0, 600, 600, 0, 0, 0, 0}));
  });
}

TEST(GradientKinds, FrozenParametersAreThoseOfRankZeroAndOfTheComputeType) {
  test::run_ranks(2, [](comm::Group& group) {
    struct Net : torch::nn::Module {
      at::Tensor trained = register_parameter("trained", at::ones({2, 3}));
      at::Tensor frozen = register_parameter("frozen", at::ones({3, 3}), false);
    } net;
    {
      const at::NoGradGuard no_grad;
      net.frozen.fill_(group.rank() + 5);
    }
    DataParallelOptions options;
    options.compute = config::Dtype::bf16;
    DataParallel replica(net, group, options);
    EXPECT_TRUE(at::equal(net.frozen, at::full({3, 3}, 5, at::kBFloat16)));
    const double loss = replica.step(0.1, [&] {
      const at::Tensor x = at::ones({4, 3}, at::kBFloat16);
      return cross_entropy_sum(at::linear(at::linear(x, net.frozen), net.trained),
                               at::zeros({4}, at::kLong));
    });
    EXPECT_GT(loss, 0);
    EXPECT_TRUE(at::equal(net.frozen, at::full({3, 3}, 5, at::kBFloat16)));
    EXPECT_FALSE(at::equal(net.trained, at::ones({2, 3}, at::kBFloat16)));
  });
}

TEST(GradientKinds, WhatWasFrozenInTheBeginningCannotBeThawedAndWhatIsFrozenLaterCan) {
  const auto group = comm::make_group({});
  const auto step = [](DataParallel& replica, WordNet& net) {
    (void)replica.step(kRate, [&] { return net.loss(words(0, 0, 4, 0), words(0, 0, 4, 1)); });
  };
  const at::Tensor before = at::full({kWidth}, 1.25);
  WordNet early(false, false);
  early.gain.set_requires_grad(false);
  DataParallel without(early, *group, {});
  step(without, early);
  early.gain.set_requires_grad(true);
  try {
    step(without, early);
    FAIL() << "went on without training it";
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_EQ(error.problems().front().code, "LS-7006");
    EXPECT_EQ(error.problems().front().where, "gain");
  }
  early.gain.set_requires_grad(false);
  step(without, early);
  EXPECT_TRUE(at::equal(early.gain, before));

  WordNet late(false, false);
  DataParallel with(late, *group, {});
  late.gain.set_requires_grad(false);
  step(with, late);
  EXPECT_TRUE(at::equal(late.gain, before));
  late.gain.set_requires_grad(true);
  step(with, late);
  EXPECT_FALSE(at::equal(late.gain, before));
}

}  // namespace
}  // namespace lockstep::parallel
