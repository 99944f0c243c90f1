#include "lockstep/launch/round_place.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

rendezvous::Seat seat(int ranks, int base_rank, const std::string& role) {
  rendezvous::Seat seat;
  seat.agent.ranks = ranks;
  seat.agent.role = role;
  seat.base_rank = base_rank;
  return seat;
}

TEST(RoundPlace, RanksOfARoleAreNumberedThroughAllHosts) {
  rendezvous::Round round;
  round.run_id = "job";
  round.restart_count = 1;
  round.max_restarts = 3;
  round.seats = {seat(2, 0, "trainer"), seat(1, 2, "reader"), seat(4, 3, "trainer")};
  round.own_seat = 2;
  const JobPlace place = place_in(round);
  EXPECT_EQ(place.base_rank, 3);
  EXPECT_EQ(place.world_size, 7);
  EXPECT_EQ(place.group_rank, 2);
  EXPECT_EQ(place.group_world_size, 3);
  EXPECT_EQ(place.base_role_rank, 2);
  EXPECT_EQ(place.role_world_size, 6);
  EXPECT_EQ(place.role, "trainer");
  EXPECT_EQ(place.run_id, "job");
  EXPECT_EQ(place.restart_count, 1);
  EXPECT_EQ(place.max_restarts, 3);
}

}  // namespace
}  // namespace lockstep::launch
