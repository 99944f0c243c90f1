#include "lockstep/model/draw_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "lockstep/base/rng.h"

namespace lockstep::model {
namespace {

std::vector<float> drawn(std::uint64_t key, std::int64_t count, float deviation = 1) {
  std::vector<float> values(static_cast<std::size_t>(count) + 1, 77.0F);
  draw_normals(key, deviation, values.data(), count);
  EXPECT_EQ(values.back(), 77.0F) << "written beyond the end";
  values.pop_back();
  return values;
}

TEST(DrawNormals, IsTheTransformOfBoxAndMullerOfEachDraw) {
  constexpr std::int64_t kCount = 2'000'000;
  const std::vector<float> values = drawn(5, kCount, 0.02F);
  Rng rng(5);
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::uint64_t bits = rng.next_u64();
    const double u = (static_cast<double>(bits >> 40) + 1) * 0x1p-24;
    const double turn = 2 * M_PI * static_cast<double>((bits >> 8) & 0xffffffU) * 0x1p-24;
    const double radius = 0.02 * std::sqrt(-2 * std::log(u));
    worst = std::max(worst, std::abs(values[i] - radius * std::cos(turn)));
    worst = std::max(worst, std::abs(values[i + 1] - radius * std::sin(turn)));
  }
  EXPECT_LT(worst, 0.02 * 2e-6);
}

TEST(DrawNormals, AValueDoesNotDependOnHowManyAreDrawn) {
  const std::vector<float> all = drawn(9, 100);
  for (const std::int64_t count : {0, 1, 2, 31, 32, 33, 63, 99}) {
    const std::vector<float> some = drawn(9, count);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count;
  }
}

TEST(DrawNormals, HasMeanZeroAndTheDeviationAskedFor) {
  const std::vector<float> values = drawn(1, 1'000'000, 3.0F);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 1e6;
  double square = 0;
  double fourth = 0;
  for (const float x : values) {
    square += double{x} * x / 1e6;
    fourth += double{x} * x * x * x / 1e6;
  }
  EXPECT_NEAR(mean, 0, 0.015);
  EXPECT_NEAR(square, 9, 0.06);
  EXPECT_NEAR(fourth, 3 * 81, 5);
}

}  // namespace
}  // namespace lockstep::model
