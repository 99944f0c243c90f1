#include "lockstep/comm/tree_sum.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

TEST(TreeSum, AddsNeighboursFirst) {
  // 1e8 swallows a single 1: only ((1e8 + -1e8) + (1 + 1)) keeps both.
  const auto terms = at::tensor({1e8F, -1e8F, 1.0F, 1.0F}).view({4, 1});
  EXPECT_EQ(tree_sum_rows(terms.clone()).item<float>(), 2.0F);
  const auto other = at::tensor({1e8F, 1.0F, -1e8F, 1.0F}).view({4, 1});
  EXPECT_EQ(tree_sum_rows(other.clone()).item<float>(), 0.0F);
}

TEST(TreeSum, OfSixteenBitsIsTakenInFp32AndRoundedOnce) {
  const auto terms = at::tensor({256.0F, 1.0F, 1.0F, 1.0F}).to(at::kBFloat16).view({4, 1});
  EXPECT_EQ(tree_sum_rows(terms).item<float>(), 260.0F) << "256 + 1 is 256 in bfloat16";
  const auto three = at::tensor({2048.0F, 1.0F, 2.0F}).to(at::kHalf).view({3, 1});
  EXPECT_EQ(tree_sum_rows(three).item<float>(), 2052.0F) << "2048 + 1 is 2048 in fp16";
}

TEST(TreeSum, OfOneRowIsTheRow) {
  EXPECT_EQ(tree_sum_rows(at::full({1, 2}, 3.0F))[1].item<float>(), 3.0F);
}

TEST(TreeSum, RefusesCountsThatAreNoPowerOfTwo) {
  EXPECT_THROW((void)tree_sum_rows(at::ones({3, 2})), Bug);
}

}  // namespace
}  // namespace lockstep::comm
