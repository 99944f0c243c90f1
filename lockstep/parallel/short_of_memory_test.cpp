// Memory that runs out on one rank while it sends a bucket: no rank waits for a collective that
// another passed over, and all hear of it in the same step.
#include "tests/support/short_of_memory.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

// B samples, F features.
namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFeatures = 40;
constexpr std::int64_t kSamples = 8;
constexpr int kSteps = 3;
constexpr int kBadStep = 1;
constexpr double kRate = 0.01;

/// Three layers, each of a bucket of its own, and a counter in integers.
struct Net : torch::nn::Module {
  Net() {
    for (int i = 0; i < 3; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(kFeatures, kFeatures)));
      const at::Tensor& weight = layers.back()->weight;
      const at::NoGradGuard no_grad;
      weight.copy_((at::arange(weight.numel(), at::kFloat) * 0.61F).sin().view_as(weight) * 0.2F);
      layers.back()->bias.zero_();
    }
  }
  at::Tensor forward(at::Tensor x_BF) {
    for (auto& layer : layers) x_BF = layer->forward(x_BF).tanh();
    seen.add_(1);
    return x_BF;
  }
  std::vector<torch::nn::Linear> layers;
  at::Tensor seen = register_buffer("seen", at::zeros({1}, at::kLong));
};

DataParallelOptions options_of(const std::string& exchange, std::int64_t leaves) {
  DataParallelOptions options;
  options.optimizer.momentum = 0.9;
  options.reducer.exchange = exchange;
  options.reducer.leaves = leaves;
  options.reducer.sizes = {4 * kFeatures * kFeatures, 4 * kFeatures * kFeatures,
                           4 * kFeatures * kFeatures};
  return options;
}

at::Tensor inputs(int rank, int step, std::int64_t leaf) {
  const auto numbers = at::arange(kSamples * kFeatures, at::kFloat);
  return (numbers * (0.37F + 0.01F * static_cast<float>(rank + 2 * step)) +
          static_cast<float>(leaf))
      .sin()
      .view({kSamples, kFeatures});
}

/// Runs the micro-batches of a step that has begun as a trainer does. \returns what all ranks
/// agreed on.
StepSums run_step(DataParallel& replica, Net& net, int rank, int step, std::int64_t leaves) {
  StepControl control;
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    replica.set_control(control);
    try {
      replica.begin_micro_batch();
      if (control.memory_votes > 0) {
        replica.skip();
        continue;
      }
      const at::Tensor x = inputs(rank, step, leaf);
      replica.backward({(net.forward(x) - x).square().sum(), kSamples});
    } catch (const std::bad_alloc&) {
      control.memory_votes = 1;
      replica.set_control(control);
      replica.skip();
    }
  }
  return replica.reduce();
}

/// Which of a step's buckets finds no memory on rank 1, in the bad step.
enum class Fails : std::uint8_t { none, first, middle, last };

int number_of(Fails which, const DataParallel& replica) {
  const int buckets = static_cast<int>(replica.reducer().bucket_count());
  EXPECT_GE(buckets, 3);
  return which == Fails::first ? 0 : (which == Fails::middle ? buckets / 2 : buckets - 1);
}

/// Trains; a step that a rank had no memory for is dropped and repeated.
at::Tensor train(comm::Group& group, const std::string& exchange, std::int64_t leaves, Fails which,
                 LocalSteps local = {}) {
  test::ShortOfMemory flaky(group);
  Net net;
  DataParallelOptions options = options_of(exchange, leaves);
  options.local = local;
  DataParallel replica(net, flaky, options);
  for (int step = 0; step < kSteps; ++step) {
    const bool is_bad = step == kBadStep && which != Fails::none;
    replica.begin_step();
    const bool is_summed = replica.reducer().summed();  // else there is one sum: the numbers'
    if (is_bad && group.rank() == 1) flaky.fail_after(is_summed ? number_of(which, replica) : 0);
    StepSums sums = run_step(replica, net, group.rank(), step, leaves);
    EXPECT_EQ(sums.memory_votes, is_bad ? 1 : 0);
    if (is_bad) {
      EXPECT_EQ(sums.memory_rank, 1);
      EXPECT_TRUE(group.rank() == 0 || flaky.has_failed());
      replica.drop_step();
      replica.begin_step();
      sums = run_step(replica, net, group.rank(), step, leaves);
      EXPECT_EQ(sums.memory_votes, 0);
    }
    EXPECT_EQ(sums.weight, kSamples * leaves * group.size());
    EXPECT_TRUE(replica.optimizer_step(kRate));
  }
  replica.settle();
  return replica.parameters().states().front().clone();
}

TEST(ShortOfMemory, WhileAnyBucketIsSentTheStepIsDroppedOnAllRanksAndRepeated) {
  test::run_ranks(2, [](comm::Group& group) {
    for (const char* exchange : {"fp32", "bf16", "fp16"}) {
      for (const std::int64_t leaves : {1, 2}) {
        const at::Tensor undisturbed = train(group, exchange, leaves, Fails::none);
        for (const Fails which : {Fails::first, Fails::middle, Fails::last}) {
          EXPECT_TRUE(at::equal(train(group, exchange, leaves, which), undisturbed))
              << exchange << ", " << static_cast<int>(which) << ", " << leaves << " micro-batches";
        }
      }
    }
  });
}

TEST(ShortOfMemory, OfCompressedGradientsLeavesNoErrorBehind) {
  test::run_ranks(2, [](comm::Group& group) {
    for (const Fails which : {Fails::first, Fails::middle, Fails::last}) {
      const at::Tensor state = train(group, "powersgd", 1, which);
      const at::Tensor of_all = at::empty({group.size(), state.numel()});
      group.all_gather(of_all, state)->wait();
      EXPECT_TRUE(at::equal(of_all[0], of_all[1])) << static_cast<int>(which);
      EXPECT_TRUE(at::isfinite(state).all().item<bool>());
    }
  });
}

TEST(ShortOfMemory, OfAStepOnItsOwnIsHeardByAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    const LocalSteps local{2, 0};
    EXPECT_TRUE(at::equal(train(group, "fp32", 1, Fails::first, local),
                          train(group, "fp32", 1, Fails::none, local)));
  });
}

TEST(ShortOfMemory, WhenAllBucketsAreOnTheirWayTheStepCounts) {
  test::run_ranks(2, [](comm::Group& group) {
    test::ShortOfMemory flaky(group);
    Net net;
    DataParallel replica(net, flaky, options_of("fp32", 1));
    replica.begin_step();
    // Behind the buckets comes the maximum of the integer buffers.
    const int buckets = static_cast<int>(replica.reducer().bucket_count());
    if (group.rank() == 1) flaky.fail_after(buckets);
    const StepSums sums = run_step(replica, net, group.rank(), 0, 1);
    EXPECT_TRUE(group.rank() == 0 || flaky.has_failed());
    EXPECT_EQ(sums.memory_votes, 0) << "nothing is missing";
    EXPECT_EQ(sums.weight, kSamples * group.size());
    EXPECT_TRUE(replica.optimizer_step(kRate));
    EXPECT_EQ(net.seen.item<std::int64_t>(), 1);
  });
}

}  // namespace
}  // namespace lockstep::parallel
