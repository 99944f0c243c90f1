#include "lockstep/launch/round_place.h"

#include "lockstep/base/error.h"

namespace lockstep::launch {

JobPlace place_in(const rendezvous::Round& round) {
  LOCKSTEP_CHECK(round.own_seat < round.seats.size(), "a round without a seat for this host");
  const rendezvous::Seat& own = round.seats[round.own_seat];
  JobPlace place;
  place.base_rank = own.base_rank;
  place.world_size = round.world_size();
  place.group_rank = static_cast<int>(round.own_seat);
  place.group_world_size = static_cast<int>(round.seats.size());
  for (std::size_t i = 0; i < round.seats.size(); ++i) {
    const rendezvous::Agent& agent = round.seats[i].agent;
    if (agent.role != own.agent.role) continue;
    place.role_world_size += agent.ranks;
    if (i < round.own_seat) place.base_role_rank += agent.ranks;
  }
  place.role = own.agent.role;
  place.run_id = round.run_id;
  place.restart_count = round.restart_count;
  place.max_restarts = round.max_restarts;
  return place;
}

}  // namespace lockstep::launch
