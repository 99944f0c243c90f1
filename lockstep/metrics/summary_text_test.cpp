#include "lockstep/metrics/summary_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

TEST(SummaryText, IsOnePageWithResultTimeSplitAndPlanAgainstMeasured) {
  EXPECT_EQ(summary_text(sample::summary(), 100, {}),
            R"(── done after 1,876 steps ────────────────────────────────────────────────────
  accuracy        92.87 %   over 10,000 samples
  eval loss       0.2500
  train loss      0.0931
  throughput      1,285 samples/s
  training        3 min 06 s   1,876 steps, median 98.4 ms
  compute used    41.0 % of the measured matmul rate

  time of a step   mean 100 ms
  ▞▞▞▞▞▞▞░░░░░░░░░░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒███▓▓▓▓
  ▞ data 10.0 %  ░ forward 30.0 %  ▒ backward 50.0 %  █ exposed sync 5.0 %
  ▓ optimizer 5.0 %

  peak memory           planned     measured
  parameters            1.10 MB      1.10 MB         =
  gradients             2.20 MB      2.20 MB         =
  optimizer             2.20 MB      2.20 MB         =
  activations            301 MB       301 MB         =
  buffers               12.0 MB      12.0 MB         =
  communication         2.20 MB      2.20 MB         =
  runtime               98.0 MB       152 MB     +55 %
  total a rank           419 MB       473 MB     +13 %

  time of a step        95.0 ms      98.4 ms      +4 %
  sent a step           1.09 MB      1.09 MB      +0 %

  plan missed     runtime 54.0 MB more
                  sent a step 8 B more
  run directory   runs/resnet20-1
  state sha256    9f2c4e77aa0011bb
)");
}

TEST(SummaryText, ALanguageModelHasBitsPerByteAndTokens) {
  auto summary = sample::summary();
  summary.counts_tokens = true;
  summary.eval->bits_per_byte = 1.875;
  const std::string text = summary_text(summary, 80, {});
  EXPECT_NE(text.find("  bits per byte   1.8750   over 10,000 tokens\n"), std::string::npos);
  EXPECT_NE(text.find("1,285 tokens/s"), std::string::npos);
}

TEST(SummaryText, LeavesOutWhatWasNotMeasured) {
  engine::RunSummary summary;
  summary.status = "stopped";
  summary.steps_this_run = 1;
  const std::string text = summary_text(summary, 80, {});
  EXPECT_NE(text.find("── stopped after 0 steps ─"), std::string::npos);
  for (const char* absent : {"accuracy", "compute used", "mean", "state sha256", "nan"}) {
    EXPECT_EQ(text.find(absent), std::string::npos) << absent;
  }
}

TEST(SummaryText, FitsNarrowTerminalsAndAscii) {
  std::istringstream lines(summary_text(sample::summary(), 60, {true, false}));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(columns(line), 60U) << line;
    for (const char c : line) EXPECT_TRUE(c == '\x1b' || (c >= ' ' && c <= '~')) << line;
  }
}

TEST(SummaryText, AWidelyMissedPlanIsMarked) {
  auto summary = sample::summary();
  summary.planned_step_s = 0.001;
  EXPECT_NE(summary_text(summary, 80, {}).find("> 10 x"), std::string::npos);
  summary.planned_step_s = 0;
  EXPECT_NE(summary_text(summary, 80, {}).find("time of a step              -      98.4 ms\n"),
            std::string::npos);
}

TEST(SummaryText, APlanIsKeptWithinItsBarsAndElseWhatMissedItIsNamed) {
  auto summary = sample::summary();
  summary.measured.runtime = summary.planned.runtime + (30 << 20);
  summary.measured_comm_bytes = summary.planned_comm_bytes;
  EXPECT_NE(
      summary_text(summary, 80, {}).find("  plan kept       memory, bytes sent and time of a"),
      std::string::npos);
  summary.planned_step_s = 0.2;
  EXPECT_NE(summary_text(summary, 80, {}).find("  plan missed     a step 51 % shorter\n"),
            std::string::npos);
  summary.steps_this_run = 2;
  EXPECT_NE(summary_text(summary, 80, {}).find("  plan kept       memory and bytes"),
            std::string::npos)
      << "two steps tell no time";
}

TEST(SummaryText, AResumedRunTellsWhichStepsItsNumbersAreOf) {
  auto summary = sample::summary();
  summary.first_step = 606;
  summary.steps_this_run = 1271;
  EXPECT_NE(summary_text(summary, 80, {}).find("3 min 06 s   steps 606-1,876, median 98.4 ms\n"),
            std::string::npos);
  EXPECT_EQ(summary_line(summary, {}),
            "done: 1,876 steps (steps 606-1,876 in this run), accuracy 92.87 %, loss 0.2500, 1,285 "
            "samples/s, 3 min 06 s, runs/resnet20-1");
}

TEST(SummaryText, ARunThatTrainedNothingShowsNoZeros) {
  auto summary = sample::summary();
  summary.first_step = 1877;
  summary.steps_this_run = 0;
  const std::string text = summary_text(summary, 80, {});
  EXPECT_NE(text.find("  training        no step in this run\n"), std::string::npos);
  for (const char* absent : {"throughput", "train loss"}) {
    EXPECT_EQ(text.find(absent), std::string::npos) << absent;
  }
  EXPECT_EQ(summary_line(summary, {}),
            "done: 1,876 steps (none in this run), accuracy 92.87 %, loss 0.2500, runs/resnet20-1");
}

TEST(SummaryText, AnEvaluationOfEarlierParametersSaysSo) {
  auto summary = sample::summary();
  summary.eval->step = 1800;
  EXPECT_NE(summary_text(summary, 80, {}).find("over 10,000 samples, at step 1,800\n"),
            std::string::npos);
  EXPECT_NE(summary_line(summary, {}).find("loss 0.2500 (at step 1,800), "), std::string::npos);
}

TEST(SummaryText, SkippedStepsAreCounted) {
  auto summary = sample::summary();
  summary.skipped_steps = 9;
  EXPECT_NE(summary_text(summary, 80, {}).find("9 times no update: loss or gradient not finite\n"),
            std::string::npos);
}

TEST(SummaryText, ASlowRankStandsBesideTheOthers) {
  auto summary = sample::summary();
  summary.per_rank = {{0.100, 0.0001, 0.030, 0.050, 0.015, 0.005},
                      {0.100, 0.0001, 0.032, 0.062, 0.001, 0.005}};
  summary.hosts = {"node1", "node2"};
  EXPECT_EQ(summary_text(summary, 80, {}).find("slowest"), std::string::npos)
      << "nobody was named while the run went on";
  summary.straggler = 1;
  EXPECT_NE(summary_text(summary, 80, {}).find(R"(
  slowest rank           rank 1         rank 0   on host node2
  forward               32.0 ms        30.0 ms      +7 %
  backward              62.0 ms        50.0 ms     +24 %
  waits                 1.00 ms        15.0 ms
  optimizer             5.00 ms        5.00 ms      +0 %
)"),
            std::string::npos)
      << summary_text(summary, 80, {});
}

TEST(SummaryText, TheWorstCheckOfTheGradientsIsTold) {
  auto summary = sample::summary();
  summary.gradient_check =
      engine::GradientCheckReport{3.1e-7, "fc1.weight", 1e-4, true, 1, "", {}, 0.1};
  EXPECT_NE(summary_text(summary, 80, {})
                .find("  gradient check  worst relative difference 3.1e-07   fc1.weight\n"),
            std::string::npos);
}

TEST(SummaryLine, SaysItInOneLine) {
  EXPECT_EQ(summary_line(sample::summary(), {}),
            "done: 1,876 steps, accuracy 92.87 %, loss 0.2500, 1,285 samples/s, 3 min 06 s, "
            "runs/resnet20-1");
}

}  // namespace
}  // namespace lockstep::metrics
