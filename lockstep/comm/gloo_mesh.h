// Connections to every peer of a group: upstream Gloo as a c10d backend.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// Connects to all ranks; keys stand in `store` under "<options.name>/<mesh>/".
/// Collective. \param address numeric address of this machine that the peers can reach.
/// \throws PeerLost when a rank that joined is gone before it has connected.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> connect_gloo(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options,
    const std::string& mesh, const std::string& address);

/// The next collective issued on a mesh of connect_gloo() meets only those with the same tag on
/// other ranks: Gloo moves no byte between two that differ. Without it collectives are counted.
void tag_next(c10d::Backend& mesh, std::uint32_t tag);

/// What a Gloo or c10d exception says, on one line, without source positions and stack traces.
[[nodiscard]] std::string cause_text(const std::exception& error);

}  // namespace lockstep::comm
