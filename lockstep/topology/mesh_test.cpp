#include "lockstep/topology/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TEST(Mesh, EveryRankSurvivesTheTripThroughItsCoordinates) {
  const Mesh mesh({2, 3, 4});
  ASSERT_EQ(mesh.world_size(), 24);
  for (int i = 0; i < mesh.world_size(); ++i) {
    EXPECT_EQ(mesh.rank_at(mesh.coord_of(Rank{i})), Rank{i});
  }
}

TEST(Mesh, NeighboursOnTpAreConsecutiveRanks) {
  const Mesh mesh({2, 2, 4});
  const std::vector<Rank> expected{Rank{4}, Rank{5}, Rank{6}, Rank{7}};
  EXPECT_EQ(mesh.peers(Rank{6}, Axis::tp), expected);
}

TEST(Mesh, PeersOnDpAreATensorDegreeApart) {
  const Mesh mesh({1, 3, 2});
  const std::vector<Rank> expected{Rank{1}, Rank{3}, Rank{5}};
  EXPECT_EQ(mesh.peers(Rank{3}, Axis::dp), expected);
}

TEST(Mesh, PeersOfAllRanksCoverTheMeshOnceAlongEachAxis) {
  const Mesh mesh({2, 3, 2});
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::tp}) {
    std::multiset<Rank> seen;
    for (int i = 0; i < mesh.world_size(); ++i) {
      if (!mesh.is_first(Rank{i}, axis)) continue;
      for (const Rank peer : mesh.peers(Rank{i}, axis)) seen.insert(peer);
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(mesh.world_size())) << name(axis);
    EXPECT_EQ(std::set<Rank>(seen.begin(), seen.end()).size(), seen.size()) << name(axis);
  }
}

TEST(Mesh, KnowsTheFirstAndTheLastAlongAnAxis) {
  const Mesh mesh({4, 2, 1});
  EXPECT_TRUE(mesh.is_first(Rank{1}, Axis::pp));
  EXPECT_FALSE(mesh.is_last(Rank{5}, Axis::pp));
  EXPECT_TRUE(mesh.is_last(Rank{7}, Axis::pp));
  EXPECT_EQ(mesh.place(Rank{5}, Axis::pp), 2);
  EXPECT_TRUE(mesh.is_first(Rank{5}, Axis::tp) && mesh.is_last(Rank{5}, Axis::tp));
}

TEST(Mesh, NamesEveryAxisThatIsBelowOne) {
  try {
    const Mesh mesh({0, 1, -2});
    FAIL() << "a mesh with no ranks was accepted";
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 2U);
    EXPECT_EQ(error.problems()[0].where, "mesh axis pp");
    EXPECT_EQ(error.problems()[1].where, "mesh axis tp");
  }
}

TEST(Mesh, ARankOutsideIsABug) {
  const Mesh mesh({1, 2, 1});
  EXPECT_THROW((void)mesh.coord_of(Rank{2}), Bug);
  EXPECT_THROW((void)mesh.coord_of(Rank{-1}), Bug);
  EXPECT_THROW((void)mesh.rank_at({0, 2, 0}), Bug);
}

}  // namespace
}  // namespace lockstep
