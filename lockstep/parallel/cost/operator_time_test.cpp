#include "lockstep/parallel/cost/operator_time.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

using model::OperatorKind;
using model::OperatorStats;
using model::Share;

OperatorSetting on(const char* device) {
  OperatorSetting setting;
  setting.device = find_device(device);
  return setting;
}

double tflops(double m, double n, double k) {
  return 2 * m * n * k / product_time(m, n, k, 1, on("A100-80G")) / 1e12;
}

TEST(OperatorTime, OfProductsIsWhatWasMeasuredOnAnA100) {
  // Azure/AI-benchmarking-guide, ND A100 v4, fp16. Single kernels on a cool device are quicker than
  // in training, which the table is fitted to: hence 15 %.
  EXPECT_NEAR(tflops(8192, 8192, 8192) / 253.7, 1, 0.15);
  EXPECT_NEAR(tflops(4096, 4096, 4096) / 228.0, 1, 0.15);
  EXPECT_NEAR(tflops(6144, 12288, 12288) / 250.8, 1, 0.15);
  EXPECT_NEAR(tflops(1024, 1024, 1024) / 119.4, 1, 0.15);
  EXPECT_NEAR(tflops(802816, 192, 768) / 157.8, 1, 0.2) << "thin";
}

TEST(OperatorTime, OfAProductWithoutRowsIsNothing) {
  EXPECT_EQ(product_time(0, 8, 8, 1, on("A100-80G")), 0);
  EXPECT_EQ(product_time(8, 8, 0, 1, on("A100-80G")), 0);
}

OperatorStats attention_of(double tokens) {
  OperatorStats op;
  op.kind = OperatorKind::attention;
  op.m = tokens;
  op.n = tokens;
  op.k = 128;
  op.times = 32;
  op.share = Share::tensor;
  op.causal = true;
  op.forward_flops = 4 * tokens * tokens * 128 * 32;
  op.moved_elements = 4 * tokens * 128 * 32;
  return op;
}

TEST(OperatorTime, FlashAttentionSparesTheScores) {
  OperatorSetting flash = on("A100-80G");
  flash.flash = 1;
  const OperatorSetting plain = on("A100-80G");
  const OperatorStats op = attention_of(4096);
  EXPECT_GT(operator_time(op, plain).forward_s, 3 * operator_time(op, flash).forward_s);
  // Four times the scores for twice the tokens.
  const double twice = operator_time(attention_of(32768), flash).forward_s /
                       operator_time(attention_of(16384), flash).forward_s;
  EXPECT_NEAR(twice, 4, 0.2);
}

TEST(OperatorTime, TensorRanksShareProductsAndSequenceParallelismNorms) {
  OperatorStats norm;
  norm.kind = OperatorKind::norm;
  norm.share = Share::sequence;
  norm.moved_elements = 1e9;
  OperatorSetting setting = on("H100-80G");
  const double whole = operator_time(norm, setting).forward_s;
  setting.tensor = 8;
  EXPECT_EQ(operator_time(norm, setting).forward_s, whole);
  setting.sequence = true;
  EXPECT_NEAR(operator_time(norm, setting).forward_s, whole / 8, whole / 100);
  OperatorStats product;
  product.m = 4096;
  product.n = 16384;
  product.k = 4096;
  product.share = Share::tensor;
  const double shared = operator_time(product, setting).forward_s;
  const double alone = operator_time(product, on("H100-80G")).forward_s;
  EXPECT_GT(shared, alone / 8) << "smaller products are less efficient";
  EXPECT_LT(shared, alone / 5);
}

TEST(OperatorTime, WideNumbersUseTheOtherPeak) {
  OperatorSetting wide = on("A100-80G");
  wide.element_bytes = 4;
  EXPECT_NEAR(
      product_time(8192, 8192, 8192, 1, wide) / product_time(8192, 8192, 8192, 1, on("A100-80G")),
      312 / 19.5, 0.5);
}

}  // namespace
}  // namespace lockstep::parallel
