#include "lockstep/comm/rank_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using testing::HasSubstr;

RankPlace place(const std::string& host, const std::string& address) {
  return {host, host, "network of " + host, address, false};
}

TEST(RankPlaces, ARankReadsWhatAnotherWrote) {
  const RankPlace told{"id", "node7", "boot/1", "10.0.0.7", true};
  const RankPlace read = read_place(to_text(told));
  EXPECT_EQ(read.host_id, "id");
  EXPECT_EQ(read.host_name, "node7");
  EXPECT_EQ(read.network, "boot/1");
  EXPECT_EQ(read.address, "10.0.0.7");
  EXPECT_TRUE(read.is_address_given);
  EXPECT_EQ(read_place("").host_id, "");
}

TEST(RankPlaces, LoopbackBetweenHostsIsRefusedNamingBothAndTheWayOut) {
  try {
    check_addresses({place("A", "127.0.0.1"), place("A", "127.0.0.1"), place("B", "127.0.0.1")});
    FAIL() << "nothing was thrown";
  } catch (const EnvironmentFault& error) {
    const Problem& problem = error.problems().front();
    EXPECT_EQ(problem.code, "LS-4006");
    EXPECT_EQ(problem.where, "rank 0 on host A");
    EXPECT_THAT(problem.what, HasSubstr("rank 2 on host B"));
    EXPECT_THAT(problem.fix, HasSubstr("LOCKSTEP_ADDRESS"));
  }
}

TEST(RankPlaces, LinkLocalBetweenHostsIsRefused) {
  EXPECT_THROW(check_addresses({place("A", "10.0.0.1"), place("B", "169.254.7.7")}),
               EnvironmentFault);
}

TEST(RankPlaces, LoopbackReachesEverythingInOneNetwork) {
  RankPlace other_user = place("B", "127.0.0.1");
  other_user.network = place("A", "").network;
  EXPECT_NO_THROW(check_addresses({place("A", "127.0.0.1"), other_user}));
  EXPECT_NO_THROW(check_addresses({place("A", "10.0.0.1"), place("B", "10.0.0.2")}));
}

TEST(RankPlaces, AnAddressThatAPersonGaveIsNotDoubted) {
  RankPlace given = place("A", "127.0.0.1");
  given.is_address_given = true;
  EXPECT_NO_THROW(check_addresses({given, place("B", "10.0.0.2")}));
}

}  // namespace
}  // namespace lockstep::comm
