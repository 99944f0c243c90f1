#include "lockstep/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

std::uint16_t bits_of(float value) { return static_cast<std::uint16_t>(to_fp16(value)); }

/// What IEEE 754 (2019, table 3.5) says an fp16 with these bits is worth.
double value_of(std::uint32_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>((bits >> 10) & 31U);
  const auto fraction = static_cast<double>(bits & 0x3ffU);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : std::nan("");
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Float16, EveryValueWidensToWhatTheStandardSays) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = to_fp32(static_cast<Fp16Bits>(bits));
    if (std::isnan(value_of(bits))) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
    } else {
      ASSERT_EQ(wide, value_of(bits)) << bits;
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << bits;
      ASSERT_EQ(bits_of(wide), bits) << "there and back";
    }
  }
}

TEST(Float16, ValuesBetweenTwoRoundToTheNearestAndTiesToTheEvenOne) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // up to the two largest finite ones
    const double low = value_of(bits);
    const double high = value_of(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact in fp32
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(bits_of(middle), even) << bits;
    ASSERT_EQ(bits_of(std::nextafterf(middle, 0)), bits) << bits;
    ASSERT_EQ(bits_of(std::nextafterf(middle, INFINITY)), bits + 1) << bits;
    ASSERT_EQ(bits_of(-middle), even | 0x8000U) << bits;
  }
}

TEST(Float16, TheEndsOfTheRange) {
  EXPECT_EQ(bits_of(65504), 0x7bff);
  EXPECT_EQ(bits_of(std::nextafterf(65520, 0)), 0x7bff);
  EXPECT_EQ(bits_of(65520), 0x7c00) << "half a unit above the largest: overflow to infinity";
  for (const float large : {65536.0F, 131008.0F, 1e9F, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(bits_of(large), 0x7c00);
    EXPECT_EQ(bits_of(-large), 0xfc00);
  }
  EXPECT_EQ(bits_of(INFINITY), 0x7c00);
  EXPECT_EQ(bits_of(0x1p-24F), 1) << "the smallest subnormal";
  EXPECT_EQ(bits_of(0x1p-25F), 0) << "half of it: a tie, to even";
  EXPECT_EQ(bits_of(std::nextafterf(0x1p-25F, 1)), 1);
  EXPECT_EQ(bits_of(-0.0F), 0x8000);
  EXPECT_EQ(bits_of(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Float16, ANanStaysOneWithItsUpperBits) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xffc02000U, 0x7fbfe000U}) {
    const std::uint16_t narrow = bits_of(std::bit_cast<float>(bits));
    EXPECT_EQ(narrow & 0x7e00U, 0x7e00U);
    EXPECT_EQ(narrow & 0x1ffU, (bits >> 13) & 0x1ffU);
    EXPECT_EQ(narrow >> 15, bits >> 31);
  }
}

}  // namespace
}  // namespace lockstep
