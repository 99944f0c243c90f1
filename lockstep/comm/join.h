// The ranks of a group find each other in the store before they connect.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// Registers this rank under "<name>/rank<r>" and waits until all ranks have.
/// Collective. \throws PeerLost naming the ranks that never came, EnvironmentFault when another
/// process has this rank already.
void join(c10d::Store& store, const GroupOptions& options);

/// "rank 1 of 4, group world": the `where` of every problem of a group.
[[nodiscard]] std::string where_of(const GroupOptions& options);

/// "120 s" or "250 ms".
[[nodiscard]] std::string to_text(std::chrono::milliseconds deadline);

}  // namespace lockstep::comm
