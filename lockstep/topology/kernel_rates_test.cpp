#include "lockstep/topology/kernel_rates.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/error.h"
#include "lockstep/topology/kernel_grid.h"

namespace lockstep {
namespace {

using config::Dtype;

KernelPoint product(double m, double n, double k, double seconds) {
  return {Kernel::linear, Dtype::fp32, {m, n, k}, seconds, 2 * seconds, 1.5 * seconds};
}

TEST(KernelTable, GivesWhatWasMeasuredAtItsPoints) {
  const KernelTable table(std::vector{product(16, 64, 64, 3e-6), product(64, 64, 64, 5e-6)});
  const KernelSeconds seconds = table.seconds(Kernel::linear, Dtype::fp32, 64, 64, 64);
  EXPECT_NEAR(seconds.forward_s, 5e-6, 1e-12);
  EXPECT_NEAR(seconds.backward_s, 10e-6, 1e-12);
  EXPECT_NEAR(seconds.backward_first_s, 7.5e-6, 1e-12);
}

TEST(KernelTable, BlendsTheTimesForAUnitOfWorkInLogarithms) {
  // 1 and 4 seconds a unit: half way between the sizes it is 2.
  const KernelTable table(std::vector{product(16, 1, 1, 16), product(256, 1, 1, 4 * 256)});
  EXPECT_NEAR(table.seconds(Kernel::linear, Dtype::fp32, 64).forward_s, 2 * 64, 1e-9);
}

TEST(KernelTable, KeepsTheRateBeyondItsPointsAndAFloorBelow) {
  const KernelTable table(std::vector{product(16, 1, 1, 32), product(256, 1, 1, 256)});
  EXPECT_NEAR(table.seconds(Kernel::linear, Dtype::fp32, 1024).forward_s, 1024, 1e-9);
  EXPECT_NEAR(table.seconds(Kernel::linear, Dtype::fp32, 1).forward_s, 32, 1e-9)
      << "nothing is quicker than the quickest that was measured";
}

TEST(KernelTable, TakesTheNearestPointForACornerThatIsMissing) {
  // (256, 256) was too slow to be measured.
  const KernelTable table(std::vector{product(16, 16, 1, 256 * 2), product(256, 16, 1, 4096),
                                      product(16, 256, 1, 4096)});
  EXPECT_NEAR(table.seconds(Kernel::linear, Dtype::fp32, 256, 256).forward_s, 65536, 1e-6);
}

TEST(KernelTable, TakesFp32WhereATypeWasNotMeasured) {
  const KernelTable table(std::vector{product(16, 1, 1, 32)});
  EXPECT_NEAR(table.seconds(Kernel::linear, Dtype::fp16, 16).forward_s, 32, 1e-9);
  EXPECT_THROW((void)table.seconds(Kernel::gelu, Dtype::fp32, 1), Bug);
}

TEST(KernelTable, LetsAttentionGrowWithTheSquareOfTheTokens) {
  const KernelTable table(
      std::vector<KernelPoint>{{Kernel::attention, Dtype::fp32, {1024, 4, 64}, 1, 2, 2}});
  EXPECT_NEAR(table.seconds(Kernel::attention, Dtype::fp32, 4096, 4, 64).forward_s, 16, 1e-9);
}

TEST(KernelRates, AreThoseOfRanksThatAreAsCrowded) {
  KernelRates rates;  // of two cores
  rates.cores = 2;
  rates.busy = {{1, {product(1, 1, 1, 1)}}, {2, {product(1, 1, 1, 2)}}, {4, {product(1, 1, 1, 3)}}};
  const auto chosen = [&](int ranks, int cores) {
    return points_of(rates, Kernel::linear, ranks, cores)->ranks;
  };
  EXPECT_EQ(chosen(1, 2), 1);
  EXPECT_EQ(chosen(2, 2), 2);
  EXPECT_EQ(chosen(3, 2), 2) << "less crowded than the four";
  EXPECT_EQ(chosen(4, 2), 4);
  EXPECT_EQ(chosen(64, 2), 4);
  EXPECT_EQ(chosen(4, 8), 2) << "each has a core";
  EXPECT_EQ(chosen(64, 64), 2);
  EXPECT_EQ(chosen(128, 64), 4);
  EXPECT_EQ(points_of(rates, Kernel::step, 1, 2), nullptr);
}

TEST(KernelRates, ExchangeLiesBetweenItsPointsAndGoesOnAlongTheLastTwo) {
  KernelRates rates;
  rates.cores = 2;
  rates.exchange = {{4, 100, 5e-6}, {2, 100, 1e-6}, {2, 300, 3e-6}};
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 2, 4), 1e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 2, 200), 2e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 2, 500), 5e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 8, 8, 200), 2e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 4, 2, 200), 5e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 8, 2, 200), 10e-6) << "twice as crowded";
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 1, 2, 200), 0);
  EXPECT_DOUBLE_EQ(exchange_seconds({}, 2, 2, 200), 0);
}

TEST(KernelRates, ExchangeNeverFallsBelowWhatWasMeasured) {
  KernelRates rates;
  rates.cores = 2;
  rates.exchange = {{2, 100, 3e-6}, {2, 100, 2e-6}, {2, 300, 1e-6}};
  EXPECT_GE(exchange_seconds(rates, 2, 2, 1e9), 1e-6);
}

TEST(TypicalRates, HaveEveryKernelThatPlansAskFor) {
  for (const int ranks : {1, 2}) {
    for (const KernelInfo& info : kernels()) {
      if (info.may_be_missing) continue;
      EXPECT_NE(points_of(typical_rates(), info.kernel, ranks, 2), nullptr) << info.name;
    }
  }
  for (const KernelPoints& busy : typical_rates().busy) {
    for (const KernelPoint& point : busy.points) {
      EXPECT_GT(point.forward_s, 0) << info_of(point.kernel).name;
    }
  }
  EXPECT_GT(exchange_seconds(typical_rates(), 2, 2, 1 << 20), 0);
}

TEST(KernelGrid, HasNoPointTwiceAndNoneThatTakesLong) {
  for (const KernelInfo& info : kernels()) {
    for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      std::set<std::array<double, 3>> seen;
      for (const KernelPoint& point : points_to_time(info.kernel, type)) {
        EXPECT_TRUE(seen.insert(point.size).second) << info.name;
        const double work = point.size[0] * point.size[1] * point.size[2];
        EXPECT_LE(work, info.multiplies ? 6e8 : 2e7) << info.name;
      }
      const bool none = seen.empty() && type == Dtype::fp32;
      EXPECT_FALSE(none) << info.name;
    }
  }
}

}  // namespace
}  // namespace lockstep
