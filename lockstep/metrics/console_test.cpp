#include "lockstep/metrics/console.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

/// What a terminal of `width` columns shows after it was sent `bytes`: CR, LF and erase to line
/// end.
std::vector<std::string> screen(const std::string& bytes, std::size_t width) {
  std::vector<std::vector<std::string>> rows(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    if (bytes[i] == '\r') {
      column = 0;
      ++i;
    } else if (bytes[i] == '\n') {
      rows.emplace_back();
      column = 0;
      ++i;
    } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
      rows.back().resize(std::min(rows.back().size(), column));
      i += 3;
    } else {
      std::size_t end = i + 1;
      while (end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xC0U) == 0x80U) ++end;
      EXPECT_LT(column, width) << "the line wrapped";
      if (rows.back().size() <= column) rows.back().resize(column + 1, " ");
      rows.back()[column++] = bytes.substr(i, end - i);
      i = end;
    }
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    lines.emplace_back();
    for (const std::string& cell : row) lines.back() += cell;
  }
  return lines;
}

struct Terminal {
  std::ostringstream out;
  double now_s = 0;
  ConsoleOptions options(bool is_terminal) {
    return {is_terminal, {}, 80, false, [this] { return now_s; }};
  }
};

TEST(Console, ATerminalShowsOneLivingLineBelowWhatStays) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(true));
  for (int i = 1; i <= 200; ++i) {
    terminal.now_s += 0.2;
    console.on_step(sample::step(i, 200));
    if (i == 100) console.on_eval(sample::eval(100, 0.85));
    if (i == 150) console.note("checkpoint saved");
    if (i == 200) console.on_eval(sample::eval(200, 0.91));
  }
  EXPECT_EQ(
      screen(terminal.out.str(), 80),
      (std::vector<std::string>{
          "eval at step 100: accuracy 85.00 %, loss 0.2500  (3.20 s)", "▪ checkpoint saved",
          "eval at step 200: accuracy 91.00 %, loss 0.2500  best so far  (3.20 s)",
          "100% ▕█████████████████▏ 200/200  loss 0.0100 █▂▁▁▁▁  1.28k samples/s  ETA 0:00"}));
}

TEST(Console, RedrawsAtMostTenTimesASecondAndAlwaysTheLastStep) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(true));
  const auto draws = [&] {
    const std::string text = terminal.out.str();
    return std::count(text.begin(), text.end(), '\r');
  };
  for (int i = 1; i <= 99; ++i) {
    terminal.now_s = 0.01 * i;
    console.on_step(sample::step(i, 100));
  }
  EXPECT_LE(draws(), 10);
  EXPECT_GE(draws(), 9);
  const auto before = draws();
  console.on_step(sample::step(100, 100));
  EXPECT_EQ(draws(), before + 1);
}

TEST(Console, EndsTheLivingLineWhenItGoes) {
  Terminal terminal;
  { Console(terminal.out, terminal.options(true)).on_step(sample::step(1, 2)); }
  EXPECT_EQ(terminal.out.str().back(), '\n');
}

TEST(Console, WithoutATerminalPlainLinesComeEveryTwentiethOfTheRun) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  for (int i = 1; i <= 1000; ++i) console.on_step(sample::step(i, 1000, 0.01));
  const std::string text = terminal.out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.rfind("step    1/1000   0%  epoch 0.01  loss 2.0000", 0), 0U);
  EXPECT_NE(text.find("\nstep 1000/1000 100%"), std::string::npos);
}

TEST(Console, ALongRunPrintsByTimeAndRarerAsItGrows) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  const auto lines = [&] {
    const std::string text = terminal.out.str();
    return std::count(text.begin(), text.end(), '\n');
  };
  for (int i = 1; i <= 100; ++i) console.on_step(sample::step(i, 1000000, 1.0));
  EXPECT_EQ(lines(), 10) << "step 1, then one in ten seconds";
  for (int i = 101; i <= 7200; ++i) console.on_step(sample::step(i, 1000000, 1.0));
  EXPECT_LT(lines(), 250) << "two hours";
}

TEST(Console, SkippedStepsAreSaidOnce) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  auto report = sample::step(3, 10);
  report.skipped = true;
  for (int i = 0; i < 10; ++i) console.on_step(report);
  EXPECT_EQ(terminal.out.str(),
            "▪ step 3: the loss or a gradient is not finite, no update was made\n");
}

TEST(Console, AStepThatFp16OverflowedIsNotedOnceAndAWarningWheneverThereIsOne) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  auto report = sample::step(3, 10);
  report.skipped = true;
  report.loss_scale = 65536;
  report.not_finite = {1, "gradient of head.fc.weight"};
  for (int i = 0; i < 3; ++i) console.on_step(report);
  report.warning = "4 of the last 4 steps overflowed";
  console.on_step(report);
  EXPECT_EQ(
      terminal.out.str(),
      "▪ step 3: no update was made: fp16 overflowed at loss scale 65536 (rank 1, gradient of "
      "head.fc.weight)\n▪ step 3: 4 of the last 4 steps overflowed\n");
}

TEST(Console, ACheckOfTheGradientsIsALineAndOneThatFailsANote) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  console.on_step(sample::step(1, 10));
  terminal.out.str("");
  auto report = sample::step(2, 10);
  report.total_steps = 1000;  // no line of its own is due
  report.gradient_check = {3.14e-7, "fc1.weight", 1e-4, true, 1, "", {}, 0.042};
  console.on_step(report);
  report.gradient_check = {0.17, "ln.bias", 1e-4, true, 1, "", 4.2e-8, 0.042};
  console.on_step(report);
  report.gradient_check->passed = false;
  console.on_step(report);
  report.gradient_check = {0.02, "fc1.weight", 1e-4, false, 4, "dropout or batch statistics",
                           {},   0.042};
  console.on_step(report);
  const std::string start = "gradients at step 2: worst relative difference ";
  EXPECT_EQ(terminal.out.str(),
            start + "3.1e-07 (fc1.weight) to the undivided batch on rank 0  (42.0 ms)\n" +  //
                start +
                "0.17 (ln.bias) to the undivided batch on rank 0, 4.2e-08 to its "
                "micro-batches  (42.0 ms)\n" +
                "▪ " + start +
                "0.17 (ln.bias) to the undivided batch on rank 0, 4.2e-08 to its "
                "micro-batches: do samples of a batch see each other?\n" +
                "▪ " + start +
                "0.020 (fc1.weight) to the batch in 4 parts on rank 0, for dropout "
                "or batch statistics: more than rounding explains (0.00010)\n");
}

TEST(Console, UnusedParametersAreNoted) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(true));
  auto report = sample::step(1, 10);
  report.parameter_use = parallel::ParameterUse{{"head.weight"}, {}};
  console.on_step(report);
  EXPECT_EQ(screen(terminal.out.str(), 80).front(),
            "▪ step 1: parameters without a gradient on any rank: head.weight");
}

TEST(Console, ALossOfARunThatDivergesStaysShort) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  auto report = sample::step(1, 10);
  report.loss = 73312189933622206464.0;
  console.on_step(report);
  EXPECT_NE(terminal.out.str().find("loss 7.33e+19  lr"), std::string::npos) << terminal.out.str();
}

TEST(Console, FewerBitsPerByteAreBetter) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(false));
  auto eval = sample::eval(1, 0.5);
  for (const double bits : {2.0, 1.9, 1.95}) {
    eval.bits_per_byte = bits;
    console.on_eval(eval);
  }
  const std::string text = terminal.out.str();
  EXPECT_NE(text.find("1.9000 bits per byte, loss 0.2500  best so far"), std::string::npos);
  EXPECT_EQ(text.find("best so far"), text.rfind("best so far")) << text;
}

TEST(Console, QuietSaysOnlyHowItEnded) {
  Terminal terminal;
  ConsoleOptions options = terminal.options(true);
  options.quiet = true;
  Console console(terminal.out, options);
  console.show_plan(sample::plan(), "x");
  console.on_step(sample::step(1, 2));
  console.on_eval(sample::eval(1, 0.5));
  console.note("saved");
  EXPECT_EQ(terminal.out.str(), "");
  console.show(sample::summary());
  EXPECT_EQ(screen(terminal.out.str(), 200).size(), 2U);
}

TEST(Console, TheSummaryFollowsTheLastStateOfTheLine) {
  Terminal terminal;
  Console console(terminal.out, terminal.options(true));
  console.show(sample::step(2, 2));
  console.show(Note{"saved"});
  console.show(sample::eval(2, 0.5));
  console.show(sample::summary());
  const auto lines = screen(terminal.out.str(), 80);
  EXPECT_EQ(lines.at(2).rfind("100%", 0), 0U);
  EXPECT_EQ(lines.at(3), "");
  EXPECT_EQ(lines.at(4).rfind("── done after", 0), 0U);
}

}  // namespace
}  // namespace lockstep::metrics
