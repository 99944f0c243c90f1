#include "lockstep/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> kNames{"seed", "steps", "epochs", "warmup_steps", "lr"};

TEST(EditDistance, CountsInsertDeleteReplaceAndSwapAsOne) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("steps", "stps"), 1U);
  EXPECT_EQ(edit_distance("steps", "stepss"), 1U);
  EXPECT_EQ(edit_distance("steps", "stops"), 1U);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);
}

TEST(EditDistance, IgnoresCase) { EXPECT_EQ(edit_distance("Seed", "sEED"), 0U); }

TEST(NearestName, FindsTheMisspeltOne) {
  EXPECT_EQ(nearest_name("warmup_step", kNames), "warmup_steps");
  EXPECT_EQ(nearest_name("sede", kNames), "seed");
  EXPECT_EQ(nearest_name("rl", kNames), "lr");
}

TEST(NearestName, StaysSilentWhenNothingIsClose) {
  EXPECT_EQ(nearest_name("momentum", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), kNames), "");
}

TEST(DidYouMean, FallsBackToTheGivenHint) {
  EXPECT_EQ(did_you_mean("epoch", kNames, "see help"), "did you mean epochs?");
  EXPECT_EQ(did_you_mean("zzz", kNames, "see help"), "see help");
}

TEST(NearestDivisors, AreTheOnesBelowAndAbove) {
  EXPECT_EQ(nearest_divisors(100, 3), "2 or 4");
  EXPECT_EQ(nearest_divisors(40, 7), "5 or 8");
  EXPECT_EQ(nearest_divisors(7, 5), "1 or 7");
  EXPECT_EQ(nearest_divisors(12, 30), "12");  // nothing above the number itself
  EXPECT_EQ(nearest_divisors(12, 4), "4");
}

}  // namespace
}  // namespace lockstep
