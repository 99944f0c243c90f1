// How much shared memory a group of one host takes: for whoever makes it, and for the plan.
#pragma once
#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm::shm {

/// The layout that groups use. docs/communication.md: smaller pieces cost more hand-overs, larger
/// ones leave the second-level cache; rings hold four steps at least.
[[nodiscard]] Layout standard_layout(int ranks);

}  // namespace lockstep::comm::shm
