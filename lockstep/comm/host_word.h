// The last word of a host whose ranks can go on no more: ranks of other hosts see only closed
// connections.
#pragma once
#include <string>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// Puts the reason into the group's store, where nobody said one for this host yet. Takes a
/// fraction of a second at most and never throws: the store may be what was lost.
void leave_word(const GroupOptions& options, int host, const std::string& reason) noexcept;

/// What a rank of that host said; empty when nobody did, or the store is not in reach.
[[nodiscard]] std::string word_of(const GroupOptions& options, int host) noexcept;

}  // namespace lockstep::comm
