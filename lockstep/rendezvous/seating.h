// Which of the hosts that are ready take part in a round, and in which order.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/rendezvous/round.h"

namespace lockstep::rendezvous {

/// \param ready in the order in which they joined. \param before seats of the round before: its
/// hosts come first, and keep their order. A node rank that was asked for is the place, as long as
/// so many hosts take part; otherwise it is the order among those that asked.
[[nodiscard]] std::vector<Seat> assign_seats(const std::vector<Agent>& ready,
                                             const std::vector<Seat>& before, std::size_t most);

}  // namespace lockstep::rendezvous
