// Plans of absurd configurations: everything the option table allows, in random combinations.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "lockstep/base/saturated.h"
#include "lockstep/planner/planner.h"

namespace lockstep::planner {
namespace {

using config::Family;
using config::RunConfig;

Host some_host() {
  Host host;
  host.cores = 4;
  host.memory_bytes = 64'000'000'000;
  return host;
}

/// Numbers of very different sizes, up to the largest that config/registry.cpp allows.
class Extremes {
 public:
  explicit Extremes(unsigned seed) : random_(seed) {}

  std::int64_t up_to(std::int64_t most) {
    const double power =
        std::uniform_real_distribution<double>(0, std::log(static_cast<double>(most)))(random_);
    const bool is_most = random_() % 4 == 0;
    return is_most ? most : static_cast<std::int64_t>(std::exp(power));
  }

  RunConfig config() {
    RunConfig config;
    config.model.family = std::array{Family::mlp, Family::gpt, Family::resnet}.at(random_() % 3);
    config.model.layers = up_to(100);  // thousands only take longer
    config.model.heads = 1;
    config.model.width = up_to(1'000'000);
    config.model.vocab_size = 1 + up_to(9'999'999);
    config.model.classes = 1 + up_to(9'999'999);
    config.model.inputs = up_to(10'000'000);
    config.model.channels = up_to(1024);
    config.model.image_size = std::max<std::int64_t>(8, up_to(4096));
    config.data.seq_len = up_to(10'000'000);
    config.data.prefetch = static_cast<int>(up_to(10'000));
    config.batch.micro_batch = up_to(1'000'000'000);
    config.batch.accumulation = up_to(
        std::min<std::int64_t>(1'000'000, 1'000'000'000'000 / *config.batch.micro_batch / 16));
    config.precision.compute =
        std::array{config::Dtype::fp32, config::Dtype::bf16, config::Dtype::fp16}.at(random_() % 3);
    config.precision.reduce = random_() % 2 == 0 ? config::Dtype::bf16 : config::Dtype::fp32;
    config.optimizer.name =
        random_() % 2 == 0 ? config::OptimizerName::adamw : config::OptimizerName::sgd;
    config.run.threads = static_cast<int>(up_to(1024));
    return config;
  }

  int ranks() { return 1 << random_() % 4; }

 private:
  std::mt19937 random_;
};

void expect_sound(const parallel::ParallelPlan& plan) {
  const parallel::MemoryPlan& memory = plan.memory;
  for (const std::int64_t bytes :
       {memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.buffers,
        memory.communication, memory.runtime}) {
    EXPECT_GE(bytes, 0);
    EXPECT_GE(memory.total(), bytes);
  }
  EXPECT_GE(plan.comm_bytes_per_step, 0);
  for (const double seconds :
       {plan.forward_s, plan.backward_s, plan.exposed_comm_s, plan.optimizer_s, plan.step_s}) {
    EXPECT_GE(seconds, 0);
    EXPECT_TRUE(std::isfinite(seconds));
  }
}

TEST(ExtremePlan, HasNoNegativeNumberWhateverTheConfiguration) {
  Extremes extremes(7);
  for (int i = 0; i < 400; ++i) {
    expect_sound(make_plan(extremes.config(), some_host(), extremes.ranks(), 0));
    ASSERT_FALSE(::testing::Test::HasFailure()) << "configuration " << i;
  }
}

TEST(ExtremePlan, NeverShrinksWithAWiderDeeperModelOrALargerBatch) {
  Extremes extremes(8);
  for (int i = 0; i < 200; ++i) {
    const RunConfig base = extremes.config();
    const int ranks = extremes.ranks();
    const std::int64_t total = make_plan(base, some_host(), ranks, 0).memory.total();
    RunConfig wider = base;
    wider.model.width = std::min<std::int64_t>(1'000'000, base.model.width * 2);
    RunConfig deeper = base;
    deeper.model.layers += 3;
    RunConfig larger = base;
    larger.batch.micro_batch = std::min<std::int64_t>(1'000'000'000, *base.batch.micro_batch * 2);
    for (const RunConfig& more : {wider, deeper, larger}) {
      EXPECT_GE(make_plan(more, some_host(), ranks, 0).memory.total(), total)
          << "configuration " << i;
    }
  }
}

TEST(ExtremePlan, OfTheLargestModelFitsNowhere) {
  RunConfig config;
  config.model.layers = 10'000;
  config.model.width = 1'000'000;
  config.batch.micro_batch = 1'000'000'000;
  const parallel::ParallelPlan plan = make_plan(config, some_host(), 1, 0);
  EXPECT_EQ(plan.memory.activations, Saturated::kMost);
  EXPECT_EQ(plan.memory.total(), Saturated::kMost);
}

}  // namespace
}  // namespace lockstep::planner
