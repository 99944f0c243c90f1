#include "lockstep/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace lockstep {
namespace {

TEST(Rng, FollowsTheReferenceStreamOfSplitMix64) {
  Rng rng(1234567);  // Rosetta Code, "Pseudo-random numbers/Splitmix64"
  EXPECT_EQ(rng.next_u64(), 6457827717110365317ULL);
  EXPECT_EQ(rng.next_u64(), 3203168211198807973ULL);
  EXPECT_EQ(rng.next_u64(), 9817491932198370423ULL);
}

TEST(Rng, MixDependsOnEveryNumberAndOnTheirOrder) {
  const std::set<std::uint64_t> keys{mix(1),       mix(1, 0),    mix(0, 1),    mix(1, 1),
                                     mix(1, 0, 0), mix(0, 1, 0), mix(0, 0, 1), mix(2, 1, 0)};
  EXPECT_EQ(keys.size(), 8U);
  static_assert(mix(3, 4, 5) == mix(3, 4, 5), "a constant expression");
}

TEST(Rng, UniformStaysInTheHalfOpenUnitIntervalAndFillsIt) {
  Rng rng(7);
  double lowest = 1, highest = 0, sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = rng.uniform();
    ASSERT_TRUE(value >= 0 && value < 1);
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
    sum += value;
  }
  EXPECT_LT(lowest, 0.01);
  EXPECT_GT(highest, 0.99);
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);  // five standard errors of the mean
}

TEST(Rng, BelowReachesEveryValueAboutEquallyOften) {
  Rng rng(11);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) ++seen.at(rng.below(6));
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, BelowHoldsForBoundsThatFillTheWord) {
  Rng rng(13);
  constexpr std::uint64_t kBound = (1ULL << 63) + 1;  // almost half of all draws are refused
  for (int i = 0; i < 200; ++i) EXPECT_LT(rng.below(kBound), kBound);
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(17);
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    const double value = rng.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.036);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
}

}  // namespace
}  // namespace lockstep
