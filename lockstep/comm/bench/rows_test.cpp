#include "lockstep/comm/bench/rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

Sample sample(bool is_theirs, std::int64_t bytes, int round, double median_us) {
  return {
      is_theirs,    Collective::all_reduce, bytes, round, {median_us / 2, median_us, median_us * 3},
      median_us + 1};
}

/// Three rounds of two sizes on 4 ranks; the machine is slow in the second.
Measured three_rounds() {
  Measured measured{4, "shm", "mpi", true, {}, {}};
  const std::vector<double> ours{10, 16, 11};
  const std::vector<double> theirs{20, 160, 20};
  const std::vector<double> probes{25, 140, 24};
  for (int round = 1; round <= 3; ++round) {
    const auto at = static_cast<std::size_t>(round - 1);
    for (const bool is_theirs : {false, true}) {
      measured.probes.push_back({is_theirs, round, probes[at]});
      const double median_us = is_theirs ? theirs[at] : ours[at];
      measured.samples.push_back(sample(is_theirs, 1024, round, median_us));
      measured.samples.push_back(sample(is_theirs, 1 << 20, round, 100 * median_us));
    }
  }
  return measured;
}

TEST(Rows, RoundsAreCombinedByTheirMedians) {
  const Rows rows = rows_of(three_rounds());
  ASSERT_EQ(rows.ours.size(), 2U);
  ASSERT_EQ(rows.theirs.size(), 2U);
  const Row& row = rows.ours[0];
  EXPECT_EQ(row.bytes, 1024);
  EXPECT_DOUBLE_EQ(row.time_us.min, 5);
  EXPECT_DOUBLE_EQ(row.time_us.median, 11);
  EXPECT_DOUBLE_EQ(row.time_us.max, 48);
  EXPECT_DOUBLE_EQ(row.slowest_us, 12);
  EXPECT_DOUBLE_EQ(row.against_time_us.median, 20);
}

TEST(Rows, TheRatioIsTheMedianOfTheRounds) {
  const Row row = rows_of(three_rounds()).ours[0];
  EXPECT_DOUBLE_EQ(row.ratio, 0.5) << "of 0.5, 0.1 and 0.55";
  EXPECT_EQ(row.regime, "mixed");
  EXPECT_EQ(row.rounds[1].regime, "far");
  EXPECT_DOUBLE_EQ(row.rounds[1].against_us, 160);
}

TEST(Rows, ARoundWhoseSidesSawTwoRegimesIsMixed) {
  Measured measured = three_rounds();
  measured.probes[0].handover_us = 130;  // ours in the first round
  const Rows rows = rows_of(measured);
  EXPECT_EQ(rows.ours[0].rounds[0].regime, "mixed");
  EXPECT_DOUBLE_EQ(rows.ours[0].rounds[0].probe_us, 130);
  EXPECT_DOUBLE_EQ(rows.ours[0].rounds[0].against_probe_us, 25);
  EXPECT_EQ(rows.theirs[0].rounds[0].regime, "near");
}

TEST(Rows, BandwidthIsThatOfNcclTests) {
  const Row row = rows_of(three_rounds()).ours[1];
  EXPECT_NEAR(row.algbw_gbs, (1 << 20) / 1100.0 / 1e3, 1e-12);
  EXPECT_NEAR(row.busbw_gbs, row.algbw_gbs * 1.5, 1e-12);
}

TEST(Rows, JsonHasTheKeysOfTheContractAndOfTheComparison) {
  const Rows rows = rows_of(three_rounds());
  const auto ours = nlohmann::json::parse(to_json_text(rows.ours[0]));
  EXPECT_EQ(ours.at("op"), "all_reduce");
  EXPECT_EQ(ours.at("backend"), "shm");
  EXPECT_EQ(ours.at("ranks"), 4);
  EXPECT_EQ(ours.at("bytes"), 1024);
  EXPECT_EQ(ours.at("time_us").at("median"), 11);
  EXPECT_NEAR(ours.at("algbw_gbs").get<double>(), 0.09309, 1e-9);
  EXPECT_EQ(ours.at("against"), "mpi");
  EXPECT_EQ(ours.at("against_time_us").at("max"), 480);
  EXPECT_EQ(ours.at("ratio"), 0.5);
  EXPECT_EQ(ours.at("crowded"), true);
  EXPECT_EQ(ours.at("rounds").size(), 3U);
  const auto theirs = nlohmann::json::parse(to_json_text(rows.theirs[0]));
  EXPECT_EQ(theirs.at("backend"), "mpi");
  EXPECT_FALSE(theirs.contains("ratio"));
}

TEST(Rows, ASideAloneHasNothingToCompareWith) {
  Measured measured{1, "gloo", "", false, {sample(false, 4, 1, 2)}, {}};
  const Rows rows = rows_of(measured);
  ASSERT_EQ(rows.ours.size(), 1U);
  EXPECT_TRUE(rows.theirs.empty());
  EXPECT_EQ(rows.ours[0].regime, "unknown");
  EXPECT_DOUBLE_EQ(rows.ours[0].busbw_gbs, 0) << "one rank sends nothing";
  EXPECT_FALSE(nlohmann::json::parse(to_json_text(rows.ours[0])).contains("against"));
}

TEST(Rows, ASizeThatOneSideLacksIsABug) {
  Measured measured = three_rounds();
  measured.samples.push_back(sample(false, 64, 1, 2));
  EXPECT_THROW((void)rows_of(measured), Bug);
}

}  // namespace
}  // namespace lockstep::bench
