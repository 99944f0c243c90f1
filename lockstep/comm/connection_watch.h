// Gloo offers no way to notice a cable that is cut: it waits until the deadline. The kernel can,
// where nobody else does.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {

/// How long nothing may come back over a connection before it is taken for cut. The control
/// connections notice it before (control::Limits::silence) and can tell it from a network that
/// loses packets; for the kernel it takes six transmissions of one segment that are all lost.
/// Probes of a silent connection are answered by the peer's kernel, so a rank that computes, swaps
/// or is stopped is not taken for lost.
inline constexpr std::chrono::seconds kConnectionSilence{15};

/// Makes the kernel end this process's TCP connections to `peers` when these do not answer for
/// kConnectionSilence. Connections inside this machine stay as they are. Call it once they stand.
/// \param peers numeric addresses. \returns how many connections are watched.
int watch_connections(const std::vector<std::string>& peers);
/// The same for the machines of all ranks of a group.
void watch_connections(const std::vector<RankPlace>& places);

}  // namespace lockstep::comm
