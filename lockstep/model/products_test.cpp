#include "lockstep/model/products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "lockstep/model/gradient_place.h"
#include "lockstep/model/model_testing.h"

namespace lockstep::model {
namespace {

at::Tensor leaf(const at::Tensor& values, at::ScalarType type) {
  return values.to(type).detach().clone().requires_grad_();
}

/// One rounding to fp16 of what fp32 computes.
constexpr double kFp16Tolerance = 5e-4;

TEST(Linear, InFp16EqualsDoublePrecisionButForOneRounding) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{5, 37}, {2, 3, 37}}) {
    const at::Tensor x = leaf(at::randn(shape), at::kHalf);
    const at::Tensor w = leaf(at::randn({11, 37}), at::kHalf);
    const at::Tensor b = leaf(at::randn({11}), at::kHalf);
    const at::Tensor x64 = leaf(x, at::kDouble);
    const at::Tensor w64 = leaf(w, at::kDouble);
    const at::Tensor b64 = leaf(b, at::kDouble);
    const at::Tensor y = apply_linear(x, w, b);
    const at::Tensor expected = at::linear(x64, w64, b64);
    EXPECT_EQ(y.scalar_type(), at::kHalf);
    EXPECT_LT(relative_error(y, expected), kFp16Tolerance);
    const at::Tensor slope = at::randn_like(y);
    y.backward(slope);
    expected.backward(slope.to(at::kDouble));
    EXPECT_LT(relative_error(x.grad(), x64.grad()), kFp16Tolerance);
    EXPECT_LT(relative_error(w.grad(), w64.grad()), kFp16Tolerance);
    EXPECT_LT(relative_error(b.grad(), b64.grad()), kFp16Tolerance);
  }
}

TEST(Linear, InFp16WithoutBiasAndForAnInputThatNeedsNoGradient) {
  const at::Tensor x = at::randn({4, 8}).to(at::kHalf);
  const at::Tensor w = leaf(at::randn({3, 8}), at::kHalf);
  apply_linear(x, w).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_LT(relative_error(w.grad(), x.to(at::kDouble).sum(0).expand({3, 8})), kFp16Tolerance);
}

TEST(Linear, InOtherTypesIsLibTorchs) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({4, 8}).to(type);
    const at::Tensor w = at::randn({3, 8}).to(type);
    EXPECT_TRUE(apply_linear(x, w).equal(at::linear(x, w)));
  }
}

TEST(Linear, WithReluIsLibTorchsInValueAndGradientBitForBit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const bool wants_input : {true, false}) {
      const at::Tensor values = at::randn({16, 37}).to(type);
      const at::Tensor x = wants_input ? leaf(values, type) : values;
      const at::Tensor x_plain = wants_input ? leaf(values, type) : values;
      const at::Tensor w = leaf(at::randn({11, 37}), type);
      const at::Tensor b = leaf(at::randn({11}), type);
      const at::Tensor w_plain = leaf(w, type);
      const at::Tensor b_plain = leaf(b, type);
      const at::Tensor y = apply_linear_relu(x, w, b);
      const at::Tensor expected = at::linear(x_plain, w_plain, b_plain).relu();
      EXPECT_TRUE(y.equal(expected));
      const at::Tensor slope = at::randn({16, 11}).to(type);
      y.backward(slope);
      expected.backward(slope);
      if (wants_input) {
        EXPECT_TRUE(x.grad().equal(x_plain.grad()));
      }
      EXPECT_TRUE(w.grad().equal(w_plain.grad()));
      EXPECT_TRUE(b.grad().equal(b_plain.grad()));
    }
  }
}

TEST(Linear, WithReluWritesItsGradientWhereItIsToldToOnce) {
  const at::Tensor x = at::randn({16, 37});
  const at::Tensor w = leaf(at::randn({11, 37}), at::kFloat);
  const at::Tensor b = leaf(at::randn({11}), at::kFloat);
  apply_linear_relu(x, w, b).sum().backward();
  const at::Tensor expected = w.grad().clone();
  for (const int uses : {1, 2}) {
    const at::Tensor place = at::full({11, 37}, 7.0);
    w.mutable_grad().reset();
    offer_gradient_place(w, place);
    at::Tensor sum = apply_linear_relu(x, w, b).sum();
    if (uses == 2) sum = sum + apply_linear_relu(x, w, b).sum();
    sum.backward();
    EXPECT_TRUE(w.grad().equal(expected * uses)) << uses;
    EXPECT_EQ(w.grad().const_data_ptr() == place.const_data_ptr(), uses == 1);
    EXPECT_TRUE(place.equal(expected));
  }
  offer_gradient_place(w, at::zeros({11, 37}));
  withdraw_gradient_places();
  EXPECT_FALSE(take_gradient_place(w).defined());
}

TEST(Linear, WithReluInFp16AndOfMoreDims) {
  const at::Tensor w = leaf(at::randn({11, 37}), at::kHalf);
  const at::Tensor b = leaf(at::randn({11}), at::kHalf);
  const at::Tensor x = at::randn({2, 3, 37}).to(at::kHalf);
  EXPECT_TRUE(apply_linear_relu(x, w, b).equal(apply_linear(x, w, b).relu()));
}

TEST(Linear, InFp16ASumBeyondItsRangeIsInfiniteAndOneInsideItIsNot) {
  const at::Tensor x = at::full({1, 64}, 100, at::kHalf);
  // Partial sums of 40 x 10,000 leave the range of fp16 and come back to 1600.
  const at::Tensor back = at::cat({at::full({1, 40}, 100.0), at::full({1, 24}, -166.0)}, 1);
  EXPECT_NEAR(apply_linear(x, back.to(at::kHalf)).item<double>(), 1600, 1);
  EXPECT_TRUE(apply_linear(x, at::full({1, 64}, 100, at::kHalf)).isinf().item<bool>());
}

TEST(Conv2d, InFp16EqualsDoublePrecisionButForOneRounding) {
  for (const std::int64_t stride : {1, 2}) {
    const at::Tensor x =
        leaf(at::randn({2, 4, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast), at::kHalf);
    const at::Tensor w =
        leaf(at::randn({6, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast), at::kHalf);
    const at::Tensor x64 = leaf(x, at::kDouble);
    const at::Tensor w64 = leaf(w, at::kDouble);
    const at::Tensor y = apply_conv2d(x, w, stride, 1);
    const at::Tensor expected = at::conv2d(x64, w64, {}, {stride, stride}, {1, 1});
    EXPECT_EQ(y.scalar_type(), at::kHalf);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LT(relative_error(y, expected), kFp16Tolerance);
    const at::Tensor slope = at::randn_like(y);
    y.backward(slope);
    expected.backward(slope.to(at::kDouble));
    EXPECT_LT(relative_error(x.grad(), x64.grad()), kFp16Tolerance);
    EXPECT_LT(relative_error(w.grad(), w64.grad()), kFp16Tolerance);
  }
}

}  // namespace
}  // namespace lockstep::model
