#include "lockstep/metrics/bars.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::metrics {
namespace {

constexpr TextStyle kPlain{false, true};
constexpr TextStyle kAscii{false, false};

std::vector<BarPart> parts(double a, double b, double c) {
  return {{"data", a, Tone::data, "░", 'd'},
          {"forward", b, Tone::forward, "▒", 'f'},
          {"backward", c, Tone::backward, "█", 'b'}};
}

TEST(ProgressBar, FillsByEighthsOfAColumn) {
  EXPECT_EQ(progress_bar(0, 6, kPlain), "▕    ▏");
  EXPECT_EQ(progress_bar(0.5, 6, kPlain), "▕██  ▏");
  EXPECT_EQ(progress_bar(0.53125, 6, kPlain), "▕██▏ ▏");
  EXPECT_EQ(progress_bar(1, 6, kPlain), "▕████▏");
}

TEST(ProgressBar, IsFullOnlyWhenAllIsDone) {
  EXPECT_EQ(progress_bar(0.9999, 6, kPlain), "▕███▉▏");
  EXPECT_EQ(progress_bar(0.9999, 6, kAscii), "[### ]");
}

TEST(ProgressBar, ToleratesFractionsThatMakeNoSense) {
  EXPECT_EQ(progress_bar(-1, 6, kAscii), "[    ]");
  EXPECT_EQ(progress_bar(7, 6, kAscii), "[####]");
  EXPECT_EQ(progress_bar(NAN, 6, kAscii), "[    ]");
  EXPECT_EQ(progress_bar(0.5, 2, kAscii), "");
}

TEST(StackedBar, GivesEachPartItsShare) {
  EXPECT_EQ(stacked_bar(parts(1, 1, 2), 8, kPlain), "░░▒▒████");
  EXPECT_EQ(stacked_bar(parts(1, 1, 2), 8, kAscii), "ddffbbbb");
  EXPECT_EQ(stacked_bar(parts(0, -3, NAN), 8, kAscii), "");
}

TEST(StackedBar, WithColoursTwoPartsShareACell) {
  const std::string bar = stacked_bar(parts(1, 0, 3), 2, {true, true});
  EXPECT_EQ(columns(bar), 2U);
  EXPECT_NE(bar.find("\x1b[34;42m▌\x1b[0m"), std::string::npos) << "data blue on backward's green";
}

TEST(StackedBar, KeepsItsWidthWhateverTheShares) {
  for (double share = 0.001; share < 1; share += 0.037) {
    for (const TextStyle style : {TextStyle{true, true}, kPlain, kAscii}) {
      EXPECT_EQ(columns(stacked_bar(parts(share, 0.001, 1 - share), 33, style)), 33U) << share;
    }
  }
}

TEST(Legend, WrapsAndLeavesOutWhatHasNoTime) {
  const auto lines = legend(parts(1, 0, 3), 20, kAscii);
  EXPECT_EQ(lines, (std::vector<std::string>{"d data 25.0 %", "b backward 75.0 %"}));
  EXPECT_EQ(legend(parts(1, 0, 3), 60, kPlain).size(), 1U);
  EXPECT_TRUE(legend(parts(0, 0, 0), 60, kPlain).empty());
}

TEST(Sparkline, ShowsTheCurveFromLowestToHighest) {
  EXPECT_EQ(sparkline(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}, kPlain), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(std::vector<double>{3, 3}, kPlain), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{7, NAN, 0}, kAscii), "#!_");
  EXPECT_EQ(sparkline(std::vector<double>{}, kPlain), "");
}

}  // namespace
}  // namespace lockstep::metrics
