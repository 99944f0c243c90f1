#include "lockstep/parallel/plan/powersgd_rule.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::parallel {
namespace {

TEST(PowerSgdRank, IsTheWantedOneWhereTheFactorsAreSmallerThanTheMatrix) {
  EXPECT_EQ(powersgd_rank(4, 60, 50), 4);
  EXPECT_EQ(powersgd_rank(27, 60, 50), 27);  // 27 x 110 = 2970 < 3000
  EXPECT_EQ(powersgd_rank(28, 60, 50), 0);
  EXPECT_EQ(powersgd_rank(1000, 60, 50), 0);
  EXPECT_EQ(powersgd_rank(1, 2, 2), 0) << "as many numbers are no fewer";
  EXPECT_EQ(powersgd_rank(1, 3, 2), 1);
  EXPECT_EQ(powersgd_rank(4, 1, 1000), 0);
}

TEST(PowerSgdRank, OfAnAbsurdMatrixDoesNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(powersgd_rank(4, kMost / 8, 1000), 4);
  EXPECT_EQ(powersgd_rank(kMost, kMost, kMost), 0);
}

}  // namespace
}  // namespace lockstep::parallel
