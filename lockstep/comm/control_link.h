// The control connections of a group whose data another library moves.
#pragma once
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/control/channel.h"
#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// Collective. Control connections to all ranks; where each can be reached stands in the store.
/// \param address of this machine, numeric, that the others reach. \throws PeerLost (LS-4005) when
/// a rank does not come.
[[nodiscard]] std::unique_ptr<control::Channel> connect_control(c10d::Store& store,
                                                                const GroupOptions& options,
                                                                const std::string& address,
                                                                control::OnEnd on_end);

}  // namespace lockstep::comm
