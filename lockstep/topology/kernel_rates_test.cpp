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
  EXPECT_TRUE(table.has(Kernel::linear));
  EXPECT_FALSE(table.has(Kernel::gelu));
  EXPECT_THROW((void)table.seconds(Kernel::gelu, Dtype::fp32, 1), Bug);
}

TEST(KernelRates, AreOfAsManyBusyRanksAsThereAre) {
  KernelRates rates;
  rates.busy = {{1, {product(1, 1, 1, 1)}}, {4, {product(1, 1, 1, 2)}}};
  EXPECT_EQ(points_of(rates, Kernel::linear, 1)->ranks, 1);
  EXPECT_EQ(points_of(rates, Kernel::linear, 3)->ranks, 1);
  EXPECT_EQ(points_of(rates, Kernel::linear, 64)->ranks, 4);
  EXPECT_EQ(points_of(rates, Kernel::step, 1), nullptr);
}

TEST(KernelRates, ExchangeLiesBetweenItsPointsAndGoesOnAlongTheLastTwo) {
  KernelRates rates;
  rates.exchange = {{2, 100, 1e-6}, {2, 300, 3e-6}, {4, 100, 5e-6}};
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 4), 1e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 200), 2e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 2, 500), 5e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 8, 200), 5e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(rates, 1, 200), 0);
}

TEST(TypicalRates, HaveEveryKernelThatPlansAskFor) {
  for (const int ranks : {1, 2}) {
    for (const KernelInfo& info : kernels()) {
      EXPECT_NE(points_of(typical_rates(), info.kernel, ranks), nullptr) << info.name;
    }
  }
  for (const KernelPoints& busy : typical_rates().busy) {
    for (const KernelPoint& point : busy.points) {
      EXPECT_GT(point.forward_s, 0) << info_of(point.kernel).name;
    }
  }
  EXPECT_GT(exchange_seconds(typical_rates(), 2, 1 << 20), 0);
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
