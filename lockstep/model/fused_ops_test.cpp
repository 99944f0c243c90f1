#include "lockstep/model/fused_ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/model/model_testing.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

at::Tensor leaf(const at::Tensor& values, at::ScalarType type) {
  at::Tensor tensor = values.to(type).detach().clone();
  tensor.requires_grad_();
  return tensor;
}

// One unit in the last place of the type, with room for two roundings.
double tolerance(at::ScalarType type) {
  if (type == at::kHalf) return 5e-4;
  return type == at::kFloat ? 2e-6 : 4e-3;
}

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

TEST(GeluTanh, EqualsLibTorchsInValueAndGradient) {
  for (const at::ScalarType type : kTypes) {
    const at::Tensor values = at::randn({7, 33}) * 4;  // not a multiple of a vector
    const at::Tensor slope = at::randn({7, 33}).to(type);
    const at::Tensor ours = leaf(values, type);
    const at::Tensor theirs = leaf(ours.detach(), at::kDouble);
    const at::Tensor out = gelu_tanh(ours);
    const at::Tensor expected = at::gelu(theirs, "tanh");
    EXPECT_LT(relative_error(out, expected), tolerance(type));
    out.backward(slope);
    expected.backward(slope.to(at::kDouble));
    EXPECT_EQ(ours.grad().scalar_type(), type);
    EXPECT_LT(relative_error(ours.grad(), theirs.grad()), tolerance(type));
  }
}

TEST(GeluTanh, SaturatesWithoutOverflowAndPassesNanOn) {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor x = at::tensor({-1e4, 0.0, 1e4, std::nan("")}, at::kFloat);
  const at::Tensor y = gelu_tanh(x);
  EXPECT_NEAR(y[0].item<double>(), 0, 1e-30);
  EXPECT_EQ(y[1].item<double>(), 0);
  EXPECT_EQ(y[2].item<double>(), 1e4);
  EXPECT_TRUE(std::isnan(y[3].item<double>()));
  EXPECT_EQ(gelu_tanh(at::full({1}, inf, at::kFloat)).item<double>(), inf);
}

TEST(GeluTanh, GivesEachElementTheSameBitsWhereverItLies) {
  const at::Tensor x = at::randn({67});
  const at::Tensor whole = gelu_tanh(x);
  for (std::int64_t begin = 0; begin < 20; ++begin) {
    EXPECT_TRUE(whole.narrow(0, begin, 40).equal(gelu_tanh(x.narrow(0, begin, 40)))) << begin;
  }
}

TEST(CausalAttention, EqualsLibTorchsInValueAndGradient) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t tokens : {std::int64_t{1}, 2 * kQueryBlock + 5, kMostAttended + 1}) {
      const at::Tensor ours = leaf(at::randn({2, tokens, 3 * 32}), type);
      const at::Tensor theirs = leaf(ours.detach(), at::kDouble);
      const auto heads = [&](std::int64_t part) {
        return theirs.narrow(2, 32 * part, 32).view({2, tokens, 4, 8}).transpose(1, 2);
      };
      const at::Tensor slope = at::randn({2, tokens, 32}).to(type);
      const at::Tensor out = causal_attention(ours, 4);
      const at::Tensor expected =
          at::scaled_dot_product_attention(heads(0), heads(1), heads(2), {}, 0.0, true)
              .transpose(1, 2)
              .flatten(2);
      out.backward(slope);
      expected.backward(slope.to(at::kDouble));
      // bf16 scores and shares are rounded before they are used.
      const double limit = type == at::kBFloat16 ? 2e-2 : tolerance(type);
      EXPECT_LT(relative_error(out, expected), limit) << tokens;
      EXPECT_LT(relative_error(ours.grad(), theirs.grad()), limit) << tokens;
    }
  }
}

TEST(CrossEntropySum, EqualsLibTorchsInValueAndGradient) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t classes : {2, 10, 16, 131}) {
      const at::Tensor ours = leaf(at::randn({9, classes}) * 5, type);
      const at::Tensor theirs = leaf(ours.detach(), at::kDouble);
      const at::Tensor target = at::randint(classes, {9}, at::kLong);
      target[3] = -100;  // left out
      const at::Tensor loss = cross_entropy_sum(ours, target);
      const at::Tensor expected = at::cross_entropy_loss(theirs, target, {}, at::Reduction::Sum);
      EXPECT_EQ(loss.scalar_type(), at::kFloat);
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 2e-6 * expected.item<double>());
      (loss * 0.25).backward();
      (expected * 0.25).backward();
      EXPECT_LT(relative_error(ours.grad(), theirs.grad()), tolerance(type)) << classes;
      EXPECT_EQ(ours.grad()[3].abs().max().item<double>(), 0);
    }
  }
}

TEST(CrossEntropySum, IsExactForLargeLogitsAndShowsNan) {
  const at::Tensor logits = at::tensor({1000., 0., 0., 1000.}, at::kFloat).view({2, 2});
  EXPECT_EQ(cross_entropy_sum(logits, at::tensor({0, 0}, at::kLong)).item<double>(), 1000);
  const at::Tensor broken = at::full({1, 20}, std::nan(""), at::kFloat);
  EXPECT_TRUE(std::isnan(cross_entropy_sum(broken, at::tensor({0}, at::kLong)).item<double>()));
}

TEST(CrossEntropySum, RefusesATargetThatIsNoClass) {
  const at::Tensor logits = at::zeros({1, 3}, at::kFloat);
  for (const std::int64_t target : {-1, 3}) {
    EXPECT_THROW((void)cross_entropy_sum(logits, at::full({1}, target, at::kLong)), BadData);
  }
}

TEST(Embedding, SumsTheGradientOfAFrequentTokenInFp32) {
  // 1000 times 1 + 2^-7: a bf16 sum stops growing at 256.
  const at::Tensor weight = leaf(at::randn({4, 8}), at::kBFloat16);
  const at::Tensor ids = at::full({10, 100}, 2, at::kLong);
  const at::Tensor rows = embed_rows(weight, ids);
  EXPECT_TRUE(rows[3][7].equal(weight[2]));
  rows.backward(at::full({10, 100, 8}, 1 + 1.0 / 128, at::kBFloat16));
  EXPECT_EQ(weight.grad()[1].abs().max().item<double>(), 0);
  EXPECT_NEAR(weight.grad()[2][0].item<double>(), 1007.8, 4);
}

TEST(Embedding, TakesFp32Too) {
  const at::Tensor weight = leaf(at::randn({4, 8}), at::kFloat);
  embed_rows(weight, at::tensor({1, 1, 3}, at::kLong)).sum().backward();
  EXPECT_EQ(weight.grad()[1][0].item<double>(), 2);
  EXPECT_EQ(weight.grad()[0][0].item<double>(), 0);
}

}  // namespace
}  // namespace lockstep::model
