// On which host each rank runs, for people.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep::worker {

/// Collective. \param own how this rank's host is called; empty = its host name. \returns one name
/// per rank, cut at 63 bytes.
[[nodiscard]] std::vector<std::string> gather_host_names(comm::Group& world,
                                                         const std::string& own);

}  // namespace lockstep::worker
