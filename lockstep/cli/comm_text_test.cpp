#include "lockstep/cli/comm_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::cli {
namespace {

using bench::Collective;

constexpr metrics::TextStyle kAscii{false, false};

/// Two rounds of three sizes; theirs take twice as long.
std::vector<bench::Row> rows(const std::string& against) {
  bench::Measured measured{4, "shm", against, true, {}, {}};
  for (int round = 1; round <= 2; ++round) {
    for (const bool is_theirs : {false, true}) {
      measured.probes.push_back({is_theirs, round, round == 1 ? 24.5 : 90});
    }
    for (const std::int64_t bytes : {4L, 16384L, 67108864L}) {
      const double us = 1 + static_cast<double>(bytes) / 8000;
      measured.samples.push_back(
          {false, Collective::all_reduce, bytes, round, {us / 2, us, us * 2}, us});
      if (against.empty()) continue;
      measured.samples.push_back(
          {true, Collective::all_reduce, bytes, round, {us, us * 2, us * 4}, us});
    }
  }
  return bench::rows_of(measured).ours;
}

TEST(CommText, TheTableComparesBothSides) {
  EXPECT_EQ(comm_table(rows("mpi"), kAscii),
            "all_reduce fp32, 4 ranks, shm against mpi\n"
            "    bytes       min    median       max   mpi median   ratio     GB/s  bus GB/s\n"
            "      4 B   0.50 us   1.00 us   2.00 us      2.00 us   0.500  0.00400   0.00600\n"
            "   16 KiB   1.52 us   3.05 us   6.10 us      6.10 us   0.500     5.38      8.06\n"
            "   64 MiB   4.19 ms   8.39 ms   16.8 ms      16.8 ms   0.500     8.00      12.0\n"
            "  regime: near far   crowded: more ranks than cores, they take turns\n");
}

TEST(CommText, ASideAloneHasNoColumnsOfAnother) {
  const std::string text = comm_table(rows(""), kAscii);
  EXPECT_EQ(text.find("ratio"), std::string::npos) << text;
  EXPECT_NE(text.find("   median       max     GB/s"), std::string::npos) << text;
}

TEST(CommText, ABarrierHasATimeAndNoBandwidth) {
  bench::Measured measured{2, "gloo", "", false, {}, {}};
  measured.samples.push_back({false, Collective::barrier, 0, 1, {100, 200, 300}, 210});
  const auto barrier = bench::rows_of(measured).ours;
  EXPECT_NE(comm_table(barrier, kAscii).find("200 us"), std::string::npos);
  EXPECT_EQ(comm_table(barrier, kAscii).find("0.000"), std::string::npos);
  EXPECT_EQ(comm_plot(barrier, 80, kAscii), "");
}

TEST(CommText, ThePlotShowsBothCurvesOverTheSizes) {
  const std::string plot = comm_plot(rows("mpi"), 60, kAscii);
  EXPECT_NE(plot.find("12.0+"), std::string::npos) << plot;
  EXPECT_NE(plot.find("4 B"), std::string::npos) << plot;
  EXPECT_NE(plot.find("@ shm   o mpi"), std::string::npos) << plot;
  EXPECT_EQ(comm_plot(rows(""), 60, kAscii).find("mpi"), std::string::npos);
}

TEST(CommText, OneSizeIsNoCurve) {
  auto one = rows("mpi");
  one.resize(1);
  EXPECT_EQ(comm_plot(one, 60, kAscii), "");
}

TEST(CommText, SizesAreBinary) {
  EXPECT_EQ(size_text(8), "8 B");
  EXPECT_EQ(size_text(1 << 10), "1 KiB");
  EXPECT_EQ(size_text(1032), "1.008 KiB");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
}

TEST(CommText, RegimesAreExplained) {
  EXPECT_EQ(regime_text(24.5), "near: a core hands 256 KiB to another in 24.5 us");
  EXPECT_EQ(regime_text(std::numeric_limits<double>::quiet_NaN()), "one core only");
}

}  // namespace
}  // namespace lockstep::cli
