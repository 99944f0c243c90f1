#include "lockstep/metrics/scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/metrics/scaling_axis.h"

namespace lockstep::metrics {
namespace {

ScalingRun run(int ranks, const engine::PhaseTimes& times, std::int64_t samples) {
  ScalingRun run{ranks, {}};
  for (int i = 0; i < 5; ++i) {
    engine::StepReport report;
    report.samples = samples;
    report.times = times;
    run.reports.push_back(report);
  }
  return run;
}

/// 1, 2 and 4 ranks of a machine with 2 cores.
std::vector<ScalingRun> weak_runs() {
  return {run(4, {0.110, 0.001, 0.034, 0.066, 0.006, 0.003}, 256),
          run(1, {0.050, 0.001, 0.016, 0.030, 0.000, 0.003}, 64),
          run(2, {0.055, 0.001, 0.016, 0.030, 0.005, 0.003}, 128)};
}

TEST(Scaling, RowsGiveRateSpeedupAndEfficiencyInOrderOfRanks) {
  const auto rows = scaling_rows(weak_runs(), Scaling::weak, 2);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].ranks, 2);
  EXPECT_NEAR(rows[0].samples_per_s, 1280, 1e-9);
  EXPECT_NEAR(rows[0].speedup, 1, 1e-12);
  EXPECT_NEAR(rows[1].speedup, 2 * 0.050 / 0.055, 1e-12);
  EXPECT_NEAR(rows[1].efficiency, 0.050 / 0.055, 1e-12);
  EXPECT_FALSE(rows[1].oversubscribed);
  EXPECT_TRUE(rows[2].oversubscribed);
}

TEST(Scaling, ThePhaseThatCostsMostBeyondIdealDominates) {
  const auto rows = scaling_rows(weak_runs(), Scaling::weak, 2);
  EXPECT_EQ(rows[0].dominating_phase, "backward") << "the longest, nothing to compare with";
  EXPECT_EQ(rows[1].dominating_phase, "exposed sync");
  EXPECT_EQ(rows[2].dominating_phase, "backward") << "ranks take turns on the cores";
}

TEST(Scaling, StrongScalingExpectsEachPhaseToShrink) {
  const auto rows = scaling_rows({run(1, {0.100, 0.010, 0.030, 0.060, 0, 0}, 64),
                                  run(2, {0.060, 0.010, 0.015, 0.031, 0.004, 0}, 64)},
                                 Scaling::strong, 2);
  EXPECT_NEAR(rows[1].speedup, 100.0 / 60, 1e-9);
  EXPECT_EQ(rows[1].dominating_phase, "data") << "5 ms too long; sync costs 4 ms, backward 1 ms";
}

TEST(Scaling, ASlowestRankCountAboveOneIsTakenAsPerfect) {
  const auto rows = scaling_rows(
      {run(2, {0.1, 0, 0.1, 0, 0, 0}, 128), run(4, {0.1, 0, 0.1, 0, 0, 0}, 256)}, Scaling::weak, 8);
  EXPECT_NEAR(rows[0].speedup, 2, 1e-12);
  EXPECT_NEAR(rows[1].speedup, 4, 1e-12);
  EXPECT_EQ(rows[1].dominating_phase, "forward") << "perfect scaling: the longest phase";
}

TEST(Scaling, OneDisturbedStepDoesNotMoveTheMedianAndRanksAreAveraged) {
  ScalingRun runs = run(1, {0.050, 0.001, 0.016, 0.030, 0.000, 0.003}, 64);
  runs.reports[3].times.step_s = 9;
  for (auto& report : std::span(runs.reports).subspan(1)) {
    report.per_rank = {{0.05, 0, 0, 0, 0.010, 0}, {0.05, 0, 0, 0, 0.020, 0}};
  }
  runs.reports[0].per_rank = {{}, {}};
  const auto rows = scaling_rows({runs}, Scaling::weak, 2);
  EXPECT_EQ(rows[0].times.step_s, 0.050);
  EXPECT_NEAR(rows[0].times.sync_s, 0.015, 1e-12);
}

TEST(Scaling, ARunWithoutStepsIsABug) {
  EXPECT_THROW((void)scaling_rows({{2, {}}}, Scaling::weak, 2), Bug);
}

TEST(Scaling, JsonLinesHaveTheKeysOfTheContract) {
  const auto rows = scaling_rows(weak_runs(), Scaling::weak, 2);
  const auto json = nlohmann::json::parse(to_json_text(rows[1]));
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["dominating_phase"], "exposed sync");
  for (const char* key : {"samples_per_s", "speedup", "efficiency"}) {
    EXPECT_TRUE(json.at(key).is_number()) << key;
  }
}

TEST(Scaling, TheCsvHasOneRowACountUnderItsHeader) {
  std::istringstream lines(scaling_csv(scaling_rows(weak_runs(), Scaling::weak, 2)));
  std::string header;
  std::string first;
  std::getline(lines, header);
  std::getline(lines, first);
  EXPECT_EQ(
      header,
      "ranks,samples_per_s,tokens_per_s,speedup,efficiency,dominating_phase,oversubscribed,"
      "step_s,data_s,forward_s,backward_s,sync_s,optimizer_s,other_s,slowest_rank,slowest_share,"
      "others_wait_s");
  EXPECT_EQ(first,
            "1,1280.000,0.000,1.0000,1.0000,backward,false,0.050000,0.001000,0.016000,0.030000,"
            "0.000000,0.003000,0.000000,,,");
}

/// Two ranks of which the second takes 10 ms longer in backward; the first report tells of none.
ScalingRun run_with_a_slow_rank() {
  ScalingRun slow = run(2, {0.060, 0.001, 0.016, 0.030, 0.010, 0.003}, 128);
  for (auto& report : slow.reports) {
    report.per_rank = {{0.060, 0.001, 0.016, 0.030, 0.010, 0.003},
                       {0.060, 0.001, 0.016, 0.0395, 0.0005, 0.003}};
  }
  slow.reports[0].per_rank = {{}, {}};
  slow.reports[4].per_rank[0].forward_s = 5;  // one disturbed step
  return slow;
}

TEST(Scaling, TheSlowestRankAndWhatTheOthersWaitAreToldBesideEachCount) {
  const auto rows =
      scaling_rows({run(1, {0.050, 0.001, 0.016, 0.030, 0.000, 0.003}, 64), run_with_a_slow_rank()},
                   Scaling::weak, 2);
  EXPECT_FALSE(rows[0].slowest);
  const auto json = nlohmann::json::parse(to_json_text(rows[1]));
  EXPECT_EQ(json["slowest_rank"], 1);
  EXPECT_NEAR(json["slowest_share"].get<double>(), 0.0095 / 0.050, 1e-9);
  EXPECT_NEAR(json["others_wait_s"].get<double>(), 0.0095, 1e-9);
  EXPECT_NE(scaling_csv(rows).find(",1,0.1900,0.009500\n"), std::string::npos);
  EXPECT_NE(scaling_text(rows, 60, {false, false})
                .find("  of 2: rank 1 computes 19 % longer than rank 0, mostly in backward: rank 0 "
                      "waits 9.50 ms a step for it\n"),
            std::string::npos)
      << scaling_text(rows, 60, {false, false});
}

/// Every opened element is closed in order, and no bare & or < is left in text.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&' && xml.find(';', i) > i + 5) return false;
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos || xml.find('<', i + 1) < end) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty();
}

TEST(Scaling, TheSvgIsWellFormedAndEscapesItsTitle) {
  const auto rows = scaling_rows(weak_runs(), Scaling::weak, 2);
  const std::string svg = scaling_svg(rows, "a<b & \"c\"", Scaling::weak);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("class=\"ideal\""), std::string::npos);
  EXPECT_NE(svg.find("hollow: more ranks than cores"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_FALSE(is_well_formed("<a><b></a></b>")) << "the check itself";
}

TEST(Scaling, TheTextShowsTableAndPlotWithTheIdealLine) {
  const auto rows = scaling_rows(weak_runs(), Scaling::weak, 2);
  const std::string text = scaling_text(rows, 60, {false, false});
  EXPECT_EQ(text, R"( ranks     samples/s        step   speedup  efficiency   dominating phase
     1         1,280     50.0 ms      1.00       100 %   backward
     2         2,327     55.0 ms      1.82        91 %   exposed sync
     4         2,327      110 ms      1.82        45 %   backward *
     * more ranks than cores: they take turns

 speedup
    4+                                                : 
     |                                            : :   
     |                                      : : :       
    3+                                  : :             
     |                              : :                 
     |                          : :                     
    2+                    : : :                         
     |                :**@*****************************o
     |            *****                                 
     |       *****                                      
    1+    @**                                           
     |                                                  
     |                                                  
    0+                                                  
     +--------------------------------------------------
          1              2                             4 ranks
      ** measured   :: ideal
)");
}

TEST(Scaling, ManyDoublingsAndOneRowAloneCanBeDrawn) {
  std::vector<ScalingRun> runs;
  for (int ranks = 1; ranks <= 512; ranks *= 2) {
    runs.push_back(run(ranks, {0.05, 0, 0.05, 0, 0, 0}, 64L * ranks));
  }
  EXPECT_TRUE(
      is_well_formed(scaling_svg(scaling_rows(runs, Scaling::weak, 512), "x", Scaling::weak)));
  const auto one = scaling_rows({run(3, {0, 0, 0, 0, 0, 0}, 0)}, Scaling::strong, 1);
  EXPECT_TRUE(is_well_formed(scaling_svg(one, "x", Scaling::strong)));
  EXPECT_FALSE(scaling_text(one, 10, {}).empty());
}

TEST(ScalingAxis, RanksBeginAtTheSmallestCount) {
  const ScalingAxis axis(scaling_rows(weak_runs(), Scaling::weak, 2));
  EXPECT_GT(axis.x(1), 0.02);
  EXPECT_LT(axis.x(1), 0.1);
  EXPECT_NEAR(axis.x(4), 1, 1e-12);
}

/// The baselines of the labels of the points, in order of ranks.
std::vector<double> label_heights(const std::string& svg) {
  std::vector<double> heights;
  for (std::size_t at = svg.find("class=\"label"); at != std::string::npos;
       at = svg.find("class=\"label", at + 1)) {
    const std::size_t y = svg.rfind("y=\"", at);
    heights.push_back(std::stod(svg.substr(y + 3)));
  }
  return heights;
}

std::vector<double> point_heights(const std::string& svg) {
  std::vector<double> heights;
  for (std::size_t at = svg.find("cy=\""); at != std::string::npos;
       at = svg.find("cy=\"", at + 1)) {
    heights.push_back(std::stod(svg.substr(at + 4)));
  }
  return heights;
}

TEST(Scaling, LabelsStandWhereTheLineDoesNotGo) {
  const auto rows = scaling_rows(
      {run(1, {0.050, 0, 0.020, 0.030, 0, 0}, 64), run(2, {0.055, 0, 0.020, 0.030, 0, 0}, 128),
       run(4, {0.200, 0, 0.020, 0.030, 0, 0}, 256)},
      Scaling::weak, 2);
  const std::string svg = scaling_svg(rows, "x", Scaling::weak);
  const auto labels = label_heights(svg);
  const auto points = point_heights(svg);
  ASSERT_EQ(labels.size(), 3U);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_GT(labels[0], points[0]) << "the line rises behind it: below";
  EXPECT_LT(labels[1], points[1]) << "the line falls behind it: above";
}

TEST(ScalingAxis, TicksAreRoundAndTheIdealLineIsStraight) {
  const ScalingAxis linear(scaling_rows(weak_runs(), Scaling::weak, 2));
  EXPECT_EQ(linear.y_ticks(5), (std::vector<double>{0, 1, 2, 3, 4}));
  const double slope = (linear.y(4) - linear.y(1)) / (linear.x(4) - linear.x(1));
  EXPECT_NEAR(linear.y(2) - linear.y(1), slope * (linear.x(2) - linear.x(1)), 1e-12);
  EXPECT_EQ(tick_text(0.5), "0.5");
  EXPECT_EQ(tick_text(64), "64");
}

}  // namespace
}  // namespace lockstep::metrics
