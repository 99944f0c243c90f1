// Texts that ranks tell each other about what they save.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep::checkpoint {

/// Collective: what each rank passes, in the order of ranks, on every rank. Equal texts travel
/// once.
[[nodiscard]] std::vector<std::string> gather_texts(comm::Group& group, const std::string& text);

}  // namespace lockstep::checkpoint
