// Group over shared memory beside another user of the same connection: c10d's backend.
#pragma once
#include <memory>

#include "lockstep/comm/group.h"
#include "lockstep/comm/shm_context.h"

namespace lockstep::comm {

/// Its collectives are entered in one order with those of the others. Whoever made `context` closes
/// it.
[[nodiscard]] std::unique_ptr<Group> group_of(std::shared_ptr<ShmContext> context);

}  // namespace lockstep::comm
