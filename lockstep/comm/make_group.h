// The backends a group can have, once its ranks have met.
#pragma once
#include <memory>

#include "lockstep/comm/join.h"

namespace lockstep::comm {

/// Collective. \pre size > 1.
[[nodiscard]] std::unique_ptr<Group> make_gloo_group(const GroupOptions& options, Meeting meeting);
[[nodiscard]] std::unique_ptr<Group> make_shm_group(const GroupOptions& options, Meeting meeting);

}  // namespace lockstep::comm
