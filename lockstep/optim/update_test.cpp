#include "lockstep/optim/update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_layout.h"

namespace lockstep::optim {
namespace {

using config::OptimizerName;
using config::OptimizerSection;

/// The buffers of one parameter group, filled with noise.
struct Buffers {
  explicit Buffers(std::int64_t count, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      master.push_back(normal(random));
      gradient.push_back(0.1F * normal(random));
      moment1.push_back(0.1F * normal(random));
      moment2.push_back(0.01F * std::fabs(normal(random)));
      compute.push_back(0);
    }
  }
  UpdateView view(std::int64_t from, std::int64_t count) {
    return {master.data() + from,  gradient.data() + from, moment1.data() + from,
            moment2.data() + from, compute.data() + from,  count};
  }
  UpdateView all() { return view(0, static_cast<std::int64_t>(master.size())); }
  [[nodiscard]] bool same_bits(const Buffers& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(master, other.master) && same(moment1, other.moment1) &&
           same(moment2, other.moment2) && same(compute, other.compute);
  }
  std::vector<float> master;
  std::vector<float> gradient;
  std::vector<float> moment1;
  std::vector<float> moment2;
  std::vector<std::uint16_t> compute;
};

struct Case {
  std::string name;
  OptimizerSection optimizer;
};

std::vector<Case> all_rules() {
  std::vector<Case> cases;
  OptimizerSection sgd;
  sgd.weight_decay = 1e-2;
  cases.push_back({"sgd", sgd});
  sgd.momentum = 0.9;
  cases.push_back({"sgd with momentum", sgd});
  sgd.nesterov = true;
  cases.push_back({"sgd with Nesterov momentum", sgd});
  OptimizerSection adamw;
  adamw.name = OptimizerName::adamw;
  adamw.weight_decay = 0.1;
  cases.push_back({"adamw", adamw});
  return cases;
}

UpdateStep at_step(const OptimizerSection& optimizer, std::int64_t step) {
  return {optimizer, 3e-3, 0.37, step};
}

TEST(Update, EveryLengthAndOffsetGivesTheBitsOfOneElementCalls) {
  constexpr std::int64_t kRoom = 300;
  for (const Case& rule : all_rules()) {
    Buffers single(kRoom);
    for (std::int64_t i = 0; i < kRoom; ++i) update(single.view(i, 1), at_step(rule.optimizer, 5));
    for (std::int64_t count = 1; count <= 200; ++count) {
      const std::int64_t offset = count * 7 % 64;
      Buffers run(kRoom);
      for (std::int64_t i = 0; i < offset; ++i) update(run.view(i, 1), at_step(rule.optimizer, 5));
      update(run.view(offset, count), at_step(rule.optimizer, 5));
      for (std::int64_t i = offset + count; i < kRoom; ++i) {
        update(run.view(i, 1), at_step(rule.optimizer, 5));
      }
      ASSERT_TRUE(run.same_bits(single)) << rule.name << ", " << count << " from " << offset;
    }
  }
}

TEST(Update, ShardsCutAtChunksEqualTheWhole) {
  constexpr std::int64_t kCount = 5 * kChunkElements + 64;
  for (const Case& rule : all_rules()) {
    Buffers whole(kCount);
    Buffers shards(kCount);
    for (std::int64_t step = 1; step <= 3; ++step) {
      update(whole.all(), at_step(rule.optimizer, step));
      update(shards.view(0, 2 * kChunkElements), at_step(rule.optimizer, step));
      update(shards.view(2 * kChunkElements, kChunkElements), at_step(rule.optimizer, step));
      update(shards.view(3 * kChunkElements, kCount - 3 * kChunkElements),
             at_step(rule.optimizer, step));
    }
    EXPECT_TRUE(shards.same_bits(whole)) << rule.name;
  }
}

// Values whose product has more than 24 bits, so that a fused multiply-add would show.
TEST(Update, ProductsAreRoundedBeforeTheyAreAdded) {
  const float a = 1.0F + 0x1p-12F;
  for (const std::int64_t count : {1, 64, 100}) {
    const auto size = static_cast<std::size_t>(count);
    std::vector<float> master(size, 1.0F);
    const std::vector<float> gradient(size, a);
    UpdateStep step;
    step.lr = a;
    update({master.data(), gradient.data(), nullptr, nullptr, nullptr, count}, step);
    volatile float product = a * a;
    for (const float value : master) ASSERT_EQ(value, 1.0F - product);
  }
}

std::vector<double> sgd_by_formula(const Buffers& start, const OptimizerSection& o, int steps) {
  std::vector<double> result;
  for (std::size_t i = 0; i < start.master.size(); ++i) {
    double p = start.master[i];
    double buffer = 0;
    for (int step = 1; step <= steps; ++step) {
      const double g = start.gradient[i] * 0.37 + o.weight_decay * p;
      buffer = step == 1 ? g : o.momentum * buffer + g;
      p -= 3e-3 * (o.nesterov ? g + o.momentum * buffer : buffer);
    }
    result.push_back(p);
  }
  return result;
}

std::vector<double> adamw_by_formula(const Buffers& start, const OptimizerSection& o, int steps) {
  std::vector<double> result;
  for (std::size_t i = 0; i < start.master.size(); ++i) {
    double p = start.master[i];
    double m = 0;
    double v = 0;
    for (int step = 1; step <= steps; ++step) {
      const double g = start.gradient[i] * 0.37;
      m = o.betas[0] * m + (1 - o.betas[0]) * g;
      v = o.betas[1] * v + (1 - o.betas[1]) * g * g;
      const double m_hat = m / (1 - std::pow(o.betas[0], step));
      const double v_hat = v / (1 - std::pow(o.betas[1], step));
      p = p * (1 - 3e-3 * o.weight_decay) - 3e-3 * m_hat / (std::sqrt(v_hat) + o.eps);
    }
    result.push_back(p);
  }
  return result;
}

double relative_l2(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

void start_moments(Buffers& buffers) {
  std::fill(buffers.moment1.begin(), buffers.moment1.end(), 0.0F);
  std::fill(buffers.moment2.begin(), buffers.moment2.end(), 0.0F);
}

TEST(Update, TenStepsFollowTheFormulaInDoublePrecision) {
  for (const Case& rule : all_rules()) {
    Buffers buffers(1000);
    start_moments(buffers);
    const Buffers start = buffers;
    for (int step = 1; step <= 10; ++step) update(buffers.all(), at_step(rule.optimizer, step));
    const auto want = rule.optimizer.name == OptimizerName::adamw
                          ? adamw_by_formula(start, rule.optimizer, 10)
                          : sgd_by_formula(start, rule.optimizer, 10);
    EXPECT_LT(relative_l2(buffers.master, want), 5e-7) << rule.name;  // ten steps of 2^-24
  }
}

at::Tensor copy_of(const std::vector<float>& values) {
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()));
}

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const at::Tensor& parameter,
                                                         const OptimizerSection& o) {
  const std::vector<at::Tensor> parameters{parameter};
  if (o.name == OptimizerName::adamw) {
    return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(3e-3)
                                                                 .weight_decay(o.weight_decay)
                                                                 .eps(o.eps)
                                                                 .betas({o.betas[0], o.betas[1]}));
  }
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(3e-3)
                                                             .momentum(o.momentum)
                                                             .nesterov(o.nesterov)
                                                             .weight_decay(o.weight_decay));
}

TEST(Update, TenStepsGiveTheParametersOfPyTorch) {
  for (const Case& rule : all_rules()) {
    Buffers buffers(1000);
    start_moments(buffers);
    const at::Tensor parameter = copy_of(buffers.master).requires_grad_(true);
    const auto oracle = torch_optimizer(parameter, rule.optimizer);
    for (int step = 1; step <= 10; ++step) {
      parameter.mutable_grad() = copy_of(buffers.gradient) * 0.37;
      oracle->step();
      update(buffers.all(), at_step(rule.optimizer, step));
    }
    const at::Tensor want = parameter.detach();
    const double difference =
        ((copy_of(buffers.master) - want).norm() / want.norm()).item<double>();
    EXPECT_LT(difference, 1e-6) << rule.name;
  }
}

TEST(Update, TheFirstMomentumStepIgnoresWhatTheBufferHolds) {
  const OptimizerSection momentum = all_rules()[1].optimizer;
  Buffers clean(100);
  Buffers dirty(100);
  start_moments(clean);
  std::fill(dirty.moment1.begin(), dirty.moment1.end(), std::nanf(""));
  update(clean.all(), at_step(momentum, 1));
  update(dirty.all(), at_step(momentum, 1));
  EXPECT_EQ(std::memcmp(clean.master.data(), dirty.master.data(), 400), 0);
}

TEST(Update, TheComputeCopyIsRoundedAsPyTorchRounds) {
  std::vector<float> master;
  for (std::uint32_t high = 0; high < 0x10000; high += 7) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      master.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const auto count = static_cast<std::int64_t>(master.size());
  const std::vector<float> gradient(master.size(), 0.0F);
  std::vector<std::uint16_t> compute(master.size());
  UpdateStep still;
  still.lr = 0;
  update({master.data(), gradient.data(), nullptr, nullptr, compute.data(), count}, still);
  const at::Tensor want = copy_of(master).to(at::kBFloat16);
  const auto* bits = static_cast<const std::uint16_t*>(want.const_data_ptr());
  for (std::size_t i = 0; i < master.size(); ++i) {
    if (std::isnan(master[i])) {
      ASSERT_TRUE((compute[i] & 0x7f80U) == 0x7f80U && (compute[i] & 0x7fU) != 0U) << i;
    } else {
      ASSERT_EQ(compute[i], bits[i]) << master[i];
    }
  }
}

/// Values around every fp16: it itself, the middles between two and their neighbours, and beyond.
std::vector<float> around_every_fp16() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_fp32(static_cast<Fp16Bits>(bits));
    const float next = to_fp32(static_cast<Fp16Bits>(bits ^ 1U));
    const float middle = (value + next) / 2;
    for (const float x :
         {value, middle, std::nextafterf(middle, -1e9F), std::nextafterf(middle, 1e9F)}) {
      values.push_back(x);
    }
  }
  for (const float x : {65519.0F, 65520.0F, 1e6F, 3e38F, 1e-40F, -1e-40F}) values.push_back(x);
  return values;
}

// The scalar functions of base/float16.h are compiled without vector instructions: equal bits say
// that the kernel's instruction set rounds as the portable code does.
TEST(Update, AnFp16ComputeCopyIsRoundedAsThePortableCodeAndPyTorchRound) {
  std::vector<float> master = around_every_fp16();
  const auto count = static_cast<std::int64_t>(master.size());
  const std::vector<float> gradient(master.size(), 0.0F);
  std::vector<std::uint16_t> compute(master.size());
  UpdateStep still;
  still.lr = 0;
  update({master.data(), gradient.data(), nullptr, nullptr, compute.data(), count,
          config::Dtype::fp16},
         still);
  const at::Tensor want = copy_of(master).to(at::kHalf);
  const auto* bits = static_cast<const std::uint16_t*>(want.const_data_ptr());
  for (std::size_t i = 0; i < master.size(); ++i) {
    ASSERT_EQ(compute[i], static_cast<std::uint16_t>(to_fp16(master[i]))) << master[i];
    if (std::isnan(master[i])) continue;
    ASSERT_EQ(compute[i], bits[i]) << master[i];
  }
}

TEST(Update, AnFp16ComputeCopyHasTheSameBitsAtEveryLength) {
  for (const Case& rule : all_rules()) {
    for (std::int64_t count = 1; count <= 130; ++count) {
      Buffers buffers(count);
      UpdateView view = buffers.all();
      view.compute_type = config::Dtype::fp16;
      update(view, at_step(rule.optimizer, 5));
      for (std::size_t i = 0; i < buffers.master.size(); ++i) {
        ASSERT_EQ(buffers.compute[i], static_cast<std::uint16_t>(to_fp16(buffers.master[i])))
            << rule.name << ", element " << i << " of " << count;
      }
    }
  }
}

TEST(TakeGradient, WidensEveryFp16ExactlyAndMultipliesOnce) {
  std::vector<Fp16Bits> from;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00U) != 0x7c00U) from.push_back(static_cast<Fp16Bits>(bits));
  }
  const auto count = static_cast<std::int64_t>(from.size());
  for (const float factor : {0x1p-16F, 0x1p20F, 0.1F}) {
    std::vector<float> into(from.size(), 5.0F);
    EXPECT_TRUE(take_gradient(into.data(), from.data(), count, factor, false));
    for (std::size_t i = 0; i < from.size(); ++i) ASSERT_EQ(into[i], to_fp32(from[i]) * factor);
    std::vector<float> sum(from.size(), 3.0F);
    EXPECT_TRUE(take_gradient(sum.data(), from.data(), count, factor, true));
    for (std::size_t i = 0; i < from.size(); ++i) {
      volatile float product = to_fp32(from[i]) * factor;  // rounded before it is added
      ASSERT_EQ(sum[i], 3.0F + product);
    }
  }
}

TEST(TakeGradient, SeesWhatIsNotFiniteWhereverItIsAndKeepsIt) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")}) {
    for (std::int64_t count = 1; count <= 80; ++count) {
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
        const auto place = static_cast<std::size_t>(at);
        std::vector<float> wide(static_cast<std::size_t>(count), 1.0F);
        std::vector<Fp16Bits> narrow(wide.size(), to_fp16(1.0F));
        std::vector<float> into(wide.size(), 0.0F);
        EXPECT_TRUE(take_gradient(into.data(), wide.data(), count, 0.5F, true));
        EXPECT_TRUE(take_gradient(into.data(), narrow.data(), count, 0.5F, true));
        wide[place] = bad;
        narrow[place] = to_fp16(bad);
        for (const bool add : {false, true}) {
          EXPECT_FALSE(take_gradient(into.data(), wide.data(), count, 0x1p-30F, add));
          EXPECT_FALSE(std::isfinite(into[place]));
          EXPECT_FALSE(take_gradient(into.data(), narrow.data(), count, 0x1p-30F, add));
          EXPECT_FALSE(std::isfinite(into[place]));
        }
      }
    }
  }
}

TEST(Update, AMissingMomentIsABug) {
  Buffers buffers(10);
  UpdateView view = buffers.all();
  view.moment2 = nullptr;
  EXPECT_THROW(update(view, at_step(all_rules()[3].optimizer, 1)), Bug);
  view.moment1 = nullptr;
  EXPECT_THROW(update(view, at_step(all_rules()[1].optimizer, 1)), Bug);
  EXPECT_NO_THROW(update(view, at_step(all_rules()[0].optimizer, 1)));
}

TEST(NormSum, AnySplitIntoRunsGivesTheSameBits) {
  const Buffers buffers(3 * kChunkElements + 640, 3);
  const std::span<const float> all(buffers.gradient);
  NormSum whole;
  whole.add(0, all, 0.5F);
  const double norm = whole.norm();
  for (const std::size_t length : {64UL, 192UL, 4096UL, 5056UL}) {
    NormSum parts;
    for (std::size_t at = 0; at < all.size(); at += length) {
      parts.add(static_cast<std::int64_t>(at), all.subspan(at, std::min(length, all.size() - at)),
                0.5F);
    }
    EXPECT_EQ(parts.norm(), norm) << length;
  }
}

TEST(NormSum, ASlotsPaddingMayBeLeftOutOrBeZero) {
  std::vector<float> padded(192, 0.0F);
  for (std::size_t i = 0; i < 100; ++i) padded[i] = 0.1F * static_cast<float>(i);
  for (std::size_t i = 128; i < 192; ++i) padded[i] = 1.0F;
  NormSum whole;
  whole.add(0, padded, 1.0F);
  NormSum slots;
  slots.add(0, std::span<const float>(padded).first(100), 1.0F);
  slots.add(128, std::span<const float>(padded).subspan(128), 1.0F);
  EXPECT_EQ(slots.norm(), whole.norm());
}

TEST(NormSum, TheNormIsThatOfDoublePrecision) {
  const Buffers buffers(10000, 5);
  NormSum sum;
  sum.add(kChunkElements, buffers.gradient, 2.0F);
  double want = 0;
  for (const float g : buffers.gradient) want += 4.0 * g * g;
  EXPECT_NEAR(sum.norm() / std::sqrt(want), 1.0, 1e-14);
}

TEST(NormSum, OneNanMakesTheNormNan) {
  std::vector<float> gradient(500, 1.0F);
  gradient[321] = std::numeric_limits<float>::quiet_NaN();
  NormSum sum;
  sum.add(0, gradient, 1.0F);
  EXPECT_TRUE(std::isnan(sum.norm()));
}

TEST(NormSum, RunsOutOfOrderAreABug) {
  const std::vector<float> run(64, 1.0F);
  NormSum sum;
  sum.add(kChunkElements, run, 1.0F);
  EXPECT_THROW(sum.add(0, run, 1.0F), Bug);
  EXPECT_THROW(sum.add(kChunkElements + 3, run, 1.0F), Bug);
}

TEST(AddInto, AddsEveryElementAtAnyLength) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 100, 1000}) {
    Buffers buffers(count + 1);
    const Buffers before = buffers;
    add_into(buffers.master.data(), buffers.gradient.data(), count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      ASSERT_EQ(buffers.master[i], before.master[i] + before.gradient[i]);
    }
    EXPECT_EQ(buffers.master.back(), before.master.back());
  }
}

}  // namespace
}  // namespace lockstep::optim
