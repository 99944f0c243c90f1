// Gloo offers no way to notice a cable that is cut: it waits until the deadline. The kernel can.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {

/// How long nothing may come back over a connection before it is taken for cut. Long enough for
/// five transmissions of a lost segment; probes of a silent connection are answered by the peer's
/// kernel, so a rank that computes, swaps or is stopped is not taken for lost.
inline constexpr std::chrono::milliseconds kConnectionSilence{3500};

/// Makes the kernel end this process's TCP connections to `peers` when these do not answer for
/// kConnectionSilence. Connections inside this machine stay as they are. Call it once they stand.
/// \param peers numeric addresses. \returns how many connections are watched.
int watch_connections(const std::vector<std::string>& peers);
/// The same for the machines of all ranks of a group.
void watch_connections(const std::vector<RankPlace>& places);

}  // namespace lockstep::comm
