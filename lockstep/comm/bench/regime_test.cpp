#include "lockstep/comm/bench/regime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

TEST(Regime, IsNamedByTheProbe) {
  EXPECT_EQ(regime_of(22), "near");
  EXPECT_EQ(regime_of(kFarAbove_us), "near");
  EXPECT_EQ(regime_of(61), "far");
  EXPECT_EQ(regime_of(std::numeric_limits<double>::quiet_NaN()), "unknown");
}

TEST(Regime, TheProbeTakesATimeAndLeavesTheCallerWhereItWas) {
  const std::vector<int> before = allowed_cores();
  ASSERT_FALSE(before.empty());
  // One core twice stands for two on a machine that has only one.
  const double us = probe_us({before.front(), before.back()});
  EXPECT_GT(us, 0);
  EXPECT_EQ(allowed_cores(), before);
}

TEST(Regime, OneCoreHasNone) { EXPECT_TRUE(std::isnan(probe_us({0}))); }

TEST(Regime, APinnedThreadRunsOnOneCore) {
  const int core = allowed_cores().back();
  std::vector<int> cores;
  std::thread([&] {
    pin_to(core);
    cores = allowed_cores();
  }).join();
  EXPECT_EQ(cores, std::vector<int>{core});
}

TEST(Regime, ACoreThatIsNotThereIsTold) {
  std::thread([] { EXPECT_THROW(pin_to(1023), EnvironmentFault); }).join();
}

}  // namespace
}  // namespace lockstep::bench
