#include "lockstep/base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

TEST(Units, BytesHaveThreeDigitsAndDecimalPrefixes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(824), "824 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(1'523'000), "1.52 MB");
  EXPECT_EQ(format_bytes(48'149'000'000), "48.1 GB");
  EXPECT_EQ(format_bytes(999'600), "1.00 MB") << "rounding must not show 1000 kB";
  EXPECT_EQ(format_bytes(-2'000'000), "-2.00 MB");
}

TEST(Units, CountsSetThousandsApart) {
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(12345678), "12,345,678");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

TEST(Units, RatesAreShort) {
  EXPECT_EQ(format_short(0.524), "0.52");
  EXPECT_EQ(format_short(948.2), "948");
  EXPECT_EQ(format_short(1284.4), "1.28k");
  EXPECT_EQ(format_short(12'345'678), "12.3M");
}

TEST(Units, DurationsUseTheUnitAPersonWould) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(85e-6), "85.0 us");
  EXPECT_EQ(format_duration(0.0124), "12.4 ms");
  EXPECT_EQ(format_duration(3.2), "3.20 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(3780), "1 h 03 min");
  EXPECT_EQ(format_duration(4 * 3600 + 2 * 86400), "2 d 04 h");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Units, PercentAndNumbers) {
  EXPECT_EQ(format_percent(0.92871, 2), "92.87 %");
  EXPECT_EQ(format_fixed(0.08098, 4), "0.0810");
  EXPECT_EQ(format_number(0.412345), "0.4123");
  EXPECT_EQ(format_number(2.302585), "2.303");
  EXPECT_EQ(format_number(1234567), "1234567");
  EXPECT_EQ(format_number(2e-5, 3), "2.00e-05");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_shortest(65536), "65536");
  EXPECT_EQ(format_shortest(0.1), "0.1");
  EXPECT_EQ(format_shortest(1e-8), "1e-08");
}

TEST(Units, SizesAreReadWithBothKindsOfPrefix) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("512 MiB"), 512LL << 20);
  EXPECT_EQ(parse_bytes("64kB "), 64000);
}

TEST(Units, WhatIsNoSizeIsNothing) {
  for (const char* text : {"", "GB", "-1", "1 XB", "1GB2", "nan", "inf", "1e30", "9e9TB", "1G B"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Units, DurationsAreReadInPartsAndAsBareSeconds) {
  EXPECT_EQ(parse_duration_s("90"), 90);
  EXPECT_EQ(parse_duration_s("90s"), 90);
  EXPECT_EQ(parse_duration_s("1h30m"), 5400);
  EXPECT_EQ(parse_duration_s("3d"), 259200);
  EXPECT_EQ(parse_duration_s("2w"), 1209600);
  EXPECT_EQ(parse_duration_s("2 min 05 s"), 125);
  EXPECT_EQ(parse_duration_s("250ms"), 0.25);
}

TEST(Units, WhatIsNoDurationIsNothing) {
  for (const char* text : {"", "s", "1h30", "3y", "-2s", "nan", "1h s"}) {
    EXPECT_FALSE(parse_duration_s(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
