#include "lockstep/model/stats/gpt_of_size.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture_stats.h"

namespace lockstep::model {
namespace {

double parameters_of(const Architecture& a) {
  return static_cast<double>(architecture_stats(a).parameters());
}

TEST(GptOfSize, IsWithinHalfAPercentFromAHundredThousandToABillionTimesThat) {
  for (double wanted = 1e5; wanted <= 1e14; wanted *= 1.37) {
    const Architecture a = gpt_of_size(wanted);
    EXPECT_EQ(lockstep::to_text(check_architecture(a)), "") << wanted;
    EXPECT_NEAR(parameters_of(a) / wanted, 1, 0.005) << wanted;
    EXPECT_EQ(a.heads * a.head_width, a.width) << wanted;
  }
}

TEST(GptOfSize, IsTheLaddersOwnRungAtItsSizes) {
  const Architecture large = gpt_of_size(175e9);
  EXPECT_EQ(large.layers, 96);
  EXPECT_EQ(large.width, 12288);
  EXPECT_EQ(large.heads, 96);
  const Architecture middle = gpt_of_size(6.7e9);
  EXPECT_EQ(middle.layers, 32);
  EXPECT_EQ(middle.width, 4096);
}

TEST(GptOfSize, KeepsTheShapeOfAGptBetweenTheRungs) {
  for (double wanted = 1e8; wanted <= 1e13; wanted *= 1.21) {
    const Architecture a = gpt_of_size(wanted);
    const double ratio = static_cast<double>(a.feed_forward) / static_cast<double>(a.width);
    EXPECT_GT(ratio, 3.2) << wanted;
    EXPECT_LT(ratio, 4.8) << wanted;
    EXPECT_EQ(a.heads % (wanted > 2e9 ? 8 : 1), 0) << wanted;
    EXPECT_EQ(a.layers % (a.layers >= 24 ? 4 : 1), 0) << wanted;
  }
}

TEST(GptOfSize, RefusesSizesThatNoGptHas) {
  for (const double wanted : {0.0, -7e9, 99.0, 1e15, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW((void)gpt_of_size(wanted), UsageError) << wanted;
  }
}

}  // namespace
}  // namespace lockstep::model
