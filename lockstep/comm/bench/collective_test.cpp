#include "lockstep/comm/bench/collective.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

TEST(Collective, NamesAreFoundAgain) {
  for (const auto name : collective_names()) {
    const auto op = find_collective(name);
    ASSERT_TRUE(op.has_value()) << name;
    EXPECT_EQ(name_of(*op), name);
  }
  EXPECT_FALSE(find_collective("allreduce").has_value());
}

TEST(Collective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::barrier, 8), 0);
}

TEST(Collective, BytesAreRoundedUpToWholeElements) {
  EXPECT_EQ(extent_of(Collective::all_reduce, 4, 2).full, 1);
  EXPECT_EQ(extent_of(Collective::all_reduce, 5, 2).bytes(), 8);
  EXPECT_EQ(extent_of(Collective::broadcast, 1, 2).bytes(), 4);
}

TEST(Collective, PartsAreEqualAndCoverWhatWasAskedFor) {
  const Extent scattered = extent_of(Collective::reduce_scatter, 1024, 3);
  EXPECT_EQ(scattered.part, 86);
  EXPECT_EQ(scattered.bytes(), 86 * 3 * 4);
  EXPECT_EQ(extent_of(Collective::all_gather, 4, 2).bytes(), 8) << "one element for each rank";
  EXPECT_EQ(extent_of(Collective::all_gather, 64 << 20, 4).bytes(), 64 << 20);
}

TEST(Collective, ABarrierMovesNothing) {
  EXPECT_EQ(extent_of(Collective::barrier, 1024, 2).bytes(), 0);
}

}  // namespace
}  // namespace lockstep::bench
