#include "lockstep/comm/bench/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

TEST(Sample, SpreadIsLeastMiddleAndMost) {
  const Spread spread = spread_of({5, 1, 9, 3, 4});
  EXPECT_DOUBLE_EQ(spread.min, 1);
  EXPECT_DOUBLE_EQ(spread.median, 4);
  EXPECT_DOUBLE_EQ(spread.max, 9);
  EXPECT_DOUBLE_EQ(median_of({2, 1}), 2);
  EXPECT_DOUBLE_EQ(median_of({}), 0);
}

TEST(Sample, ReportsAreReadAsTheyWereWritten) {
  const Sample wanted{true, Collective::all_gather, 2048, 3, {0.5, 0.8, 2.5}, 0.9};
  const auto sample = std::get<Sample>(read_report(to_json_text(wanted)));
  EXPECT_TRUE(sample.is_theirs);
  EXPECT_EQ(sample.op, Collective::all_gather);
  EXPECT_EQ(sample.bytes, 2048);
  EXPECT_EQ(sample.round, 3);
  EXPECT_DOUBLE_EQ(sample.time_us.min, 0.5);
  EXPECT_DOUBLE_EQ(sample.time_us.median, 0.8);
  EXPECT_DOUBLE_EQ(sample.time_us.max, 2.5);
  EXPECT_DOUBLE_EQ(sample.slowest_us, 0.9);
  const auto probe = std::get<Probe>(read_report(to_json_text(Probe{true, 2, 31.5})));
  EXPECT_EQ(probe.round, 2);
  EXPECT_TRUE(probe.is_theirs);
  EXPECT_DOUBLE_EQ(probe.handover_us, 31.5);
}

TEST(Sample, AProbeWithoutASecondCoreSurvivesJson) {
  const Probe none{false, 1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(std::get<Probe>(read_report(to_json_text(none))).handover_us));
}

TEST(Sample, LinesOfOtherProgramsAreRefused) {
  for (const char* line : {"", "[1]", "{}", R"({"side":"mine","op":"all_reduce"})",
                           R"({"side":"ours","round":0,"probe_us":3})",
                           R"({"side":"ours","op":"sort","bytes":4,"round":1})"}) {
    EXPECT_THROW((void)read_report(line), BadData) << line;
  }
}

}  // namespace
}  // namespace lockstep::bench
