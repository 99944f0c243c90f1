#include "lockstep/rendezvous/round.h"

#include <numeric>

namespace lockstep::rendezvous {

int Round::world_size() const {
  return std::accumulate(seats.begin(), seats.end(), 0,
                         [](int sum, const Seat& seat) { return sum + seat.agent.ranks; });
}

}  // namespace lockstep::rendezvous
