#include "lockstep/checkpoint/bench/rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::checkpoint {
namespace {

const BenchSide kOurs{"lockstep",
                      {{BenchPart::disk_write, 1, 1.0},
                       {BenchPart::save, 1, 1.25},
                       {BenchPart::load, 1, 0.2},
                       {BenchPart::disk_write, 2, 2.0},
                       {BenchPart::save, 2, 2.0},
                       {BenchPart::load, 2, 0.4},
                       {BenchPart::async_stall, 2, 0.1}}};
const BenchSide kTorch{"torch", {{BenchPart::save, 1, 5.0}, {BenchPart::save, 2, 6.0}}};

const BenchRow* find(const std::vector<BenchRow>& rows, BenchPart part, const char* backend) {
  for (const BenchRow& row : rows) {
    if (row.part == part && row.backend == backend) return &row;
  }
  return nullptr;
}

TEST(BenchRows, ComparePartsOfTheSameRound) {
  const auto rows = bench_rows(kOurs, kTorch, 2, 1'000'000'000);
  ASSERT_EQ(rows.size(), 5U);
  const BenchRow* save = find(rows, BenchPart::save, "lockstep");
  ASSERT_NE(save, nullptr);
  EXPECT_DOUBLE_EQ(save->share_of_disk, 1.0);  // 0.8 and 1: the upper of two
  EXPECT_DOUBLE_EQ(save->times_as_fast, 4.0);  // 4 and 3
  EXPECT_DOUBLE_EQ(save->gb_per_s, 0.5);
  EXPECT_EQ(save->ranks, 2);
  const BenchRow* stall = find(rows, BenchPart::async_stall, "lockstep");
  ASSERT_NE(stall, nullptr);
  EXPECT_DOUBLE_EQ(stall->share_of_save, 0.05);
  EXPECT_DOUBLE_EQ(find(rows, BenchPart::load, "lockstep")->times_as_fast, 0);
  EXPECT_DOUBLE_EQ(find(rows, BenchPart::save, "torch")->median_s, 6);
}

TEST(BenchRows, AreLinesOfJson) {
  const auto rows = bench_rows(kOurs, {}, 2, 8);
  const auto json = nlohmann::json::parse(to_json_text(rows.at(1)));
  EXPECT_EQ(json.at("part"), "save");
  EXPECT_EQ(json.at("time_us").at("max"), 2e6);
  EXPECT_FALSE(json.contains("times_as_fast"));
}

}  // namespace
}  // namespace lockstep::checkpoint
