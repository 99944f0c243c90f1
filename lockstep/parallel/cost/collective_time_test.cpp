#include "lockstep/parallel/cost/collective_time.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

Machine a100s(std::int64_t devices) { return usual_machine(*find_device("A100-80G"), devices); }

double bus_gb_per_s(double bytes) {
  const Machine machine = a100s(8);
  const double seconds = collective_time(Collective::all_reduce, bytes, {8, 8}, machine);
  return sent_bytes(Collective::all_reduce, bytes, 8) / seconds / 1e9;
}

TEST(CollectiveTime, OfAllReduceInsideAHostIsWhatNcclTestsMeasured) {
  // Azure/AI-benchmarking-guide, ND A100 v4, bus bandwidth.
  EXPECT_NEAR(bus_gb_per_s(8e9) / 231.6, 1, 0.03);
  EXPECT_NEAR(bus_gb_per_s(268e6) / 213.9, 1, 0.05);
  EXPECT_NEAR(bus_gb_per_s(67e6) / 166.6, 1, 0.15);
  EXPECT_NEAR(bus_gb_per_s(16e6) / 109.2, 1, 0.15);
}

TEST(CollectiveTime, LatencyBoundOnesTakeTheTree) {
  const Machine machine = a100s(2048);
  const Group spread{256, 1};
  const double small = 1000;
  EXPECT_EQ(collective_time(Collective::all_reduce, small, spread, machine),
            collective_time(Collective::all_reduce, small, spread, machine, Algorithm::tree));
  EXPECT_LT(collective_time(Collective::all_reduce, small, spread, machine, Algorithm::tree),
            collective_time(Collective::all_reduce, small, spread, machine, Algorithm::ring));
  const Group few{4, 1};
  EXPECT_LT(collective_time(Collective::all_reduce, 1e9, few, machine, Algorithm::ring),
            collective_time(Collective::all_reduce, 1e9, few, machine, Algorithm::tree));
}

TEST(CollectiveTime, AcrossHostsAllNetworkCardsSendAtOnce) {
  const Machine machine = a100s(64);
  const double whole = collective_time(Collective::all_gather, 8e9, {64, 8}, machine);
  const double one_card = collective_time(Collective::all_gather, 8e9, {8, 1}, machine);
  EXPECT_NEAR(one_card / whole, 8, 0.2);
}

TEST(CollectiveTime, ALinearOneGrowsWithItsRanks) {
  const Machine machine = usual_machine(*find_device("A64FX"), 256);
  const auto time = [&](std::int64_t ranks) {
    return collective_time(Collective::all_reduce, 1e9, {ranks, 1}, machine, Algorithm::linear);
  };
  EXPECT_NEAR(time(64) / time(16), 4, 0.01);
}

TEST(CollectiveTime, OfOneRankIsNothing) {
  EXPECT_EQ(collective_time(Collective::all_reduce, 1e9, {1, 1}, a100s(8)), 0);
  EXPECT_EQ(sent_bytes(Collective::all_to_all, 1e9, 1), 0);
}

TEST(GroupOf, PutsNeighboursIntoOneHostWhileTheyFit) {
  const Machine machine = a100s(64);
  EXPECT_EQ(group_of(8, 1, machine).hosts(), 1);
  EXPECT_EQ(group_of(8, 8, machine).hosts(), 8);
  EXPECT_EQ(group_of(8, 4, machine).per_host, 2);
  EXPECT_EQ(group_of(4, 1, machine).per_host, 4);
}

}  // namespace
}  // namespace lockstep::parallel
