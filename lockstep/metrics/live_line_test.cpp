#include "lockstep/metrics/live_line.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

std::string line_at(std::size_t width, const TextStyle& style = {}) {
  Progress progress;
  for (int i = 1; i <= 740; ++i) progress.add(sample::step(i, 2000));
  return live_line(sample::step(740, 2000), progress, width, style);
}

TEST(LiveLine, AWideTerminalShowsEverything) {
  EXPECT_EQ(line_at(130),
            " 37% ▕███████████                   ▏  740/2000  epoch 7.40  loss 0.0027 "
            "█▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁  lr 0.0500  1.28k samples/s  ETA 2:06");
}

TEST(LiveLine, EightyColumnsKeepWhatMattersMost) {
  EXPECT_EQ(line_at(80),
            " 37% ▕█████▌         ▏  740/2000  loss 0.0027 █▂▁▁▁▁  1.28k samples/s  ETA 2:06");
}

TEST(LiveLine, NeverReachesTheLastColumn) {
  for (std::size_t width = 0; width < 200; ++width) {
    for (const TextStyle style : {TextStyle{false, true}, TextStyle{true, false}}) {
      EXPECT_LE(columns(line_at(width, style)), width > 0 ? width - 1 : 0) << width;
    }
  }
}

TEST(LiveLine, AnAsciiTerminalGetsAscii) {
  for (const char c : line_at(130, {false, false})) EXPECT_TRUE(c >= ' ' && c <= '~') << c;
}

TEST(LiveLine, ALongRunCountsHours) {
  Progress progress;
  progress.add(sample::step(1, 40000, 1.0));
  EXPECT_NE(live_line(sample::step(1, 40000), progress, 120, {}).find("ETA 11:06:39"),
            std::string::npos);
}

TEST(LiveLine, ALossThatIsNotFiniteIsShownAsSuch) {
  auto report = sample::step(1, 10);
  report.loss = NAN;
  Progress progress;
  progress.add(report);
  EXPECT_NE(live_line(report, progress, 120, {}).find("loss nan !"), std::string::npos);
}

TEST(PlainLine, AlignsStepsAndSaysTheSame) {
  Progress progress;
  progress.add(sample::step(1, 2000));
  EXPECT_EQ(plain_line(sample::step(1, 2000), progress, {}),
            "step    1/2000   0%  epoch 0.01  loss 2.0000  lr 0.0500  1.28k samples/s  ETA 3:20");
}

}  // namespace
}  // namespace lockstep::metrics
