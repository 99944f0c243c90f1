#include "lockstep/comm/host_blame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::comm {
namespace {

/// Two ranks on A, two on B, one on C, as `rank` sees them.
HostBlame blame_of(int rank) {
  const std::vector<std::string> hosts{"A", "A", "B", "B", "C"};
  std::vector<RankPlace> places;
  for (const std::string& host : hosts) {
    places.push_back({host, host, "network", "10.0.0." + std::to_string(host[0] - 'A' + 1), false});
  }
  return {HostLayout(hosts, rank), places};
}

TEST(HostBlame, TheHostOfARankThatTheCauseNamesIsLost) {
  EXPECT_EQ(
      blame_of(0).text_of("rank 2 (process 7 on b) ended"),
      "host A (ranks 0 and 1) has lost host B (ranks 2 and 3): rank 2 (process 7 on b) ended");
  EXPECT_EQ(blame_of(4).text_of("ranks 1 and 3 have not entered it"),
            "host C (rank 4) has lost host A (ranks 0 and 1) and host B (ranks 2 and 3): "
            "ranks 1 and 3 have not entered it");
}

TEST(HostBlame, WhatHappenedOnAHostIsToldAsItsFaultWhoeverElseIsNamed) {
  const std::string cause = "on host B: rank 3 has not entered it; rank 0 is well";
  EXPECT_EQ(blame_of(0).text_of(cause),
            "host A (ranks 0 and 1) has lost host B (ranks 2 and 3): " + cause);
  EXPECT_EQ(blame_of(2).text_of(cause), cause);
}

TEST(HostBlame, ARankOfTheOwnHostIsNoLossOfAnother) {
  EXPECT_EQ(blame_of(3).text_of("rank 2 ended"), "on host B: rank 2 ended");
}

TEST(HostBlame, AnAddressOfAnotherHostStandsForIt) {
  EXPECT_EQ(
      blame_of(0).text_of("Connection closed by peer [10.0.0.3]"),
      "host A (ranks 0 and 1) has lost host C (rank 4): Connection closed by peer [10.0.0.3]");
}

TEST(HostBlame, WhereNobodyIsNamedEveryOtherHostMayBeLost) {
  EXPECT_EQ(blame_of(4).text_of("timed out"),
            "host C (rank 4) has lost host A (ranks 0 and 1) or host B (ranks 2 and 3): timed out");
}

}  // namespace
}  // namespace lockstep::comm
