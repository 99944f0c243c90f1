// What a rank needs to talk to the other ranks of its host: memory, engine, and a watch over them.
#pragma once
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/group.h"
#include "lockstep/comm/shm/engine.h"
#include "lockstep/comm/shm/liveness.h"
#include "lockstep/comm/shm/shared_memory.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {

class ShmLink {
 public:
  ShmLink(shm::SharedMemory memory, const GroupOptions& options, GroupFlight* flight);

  [[nodiscard]] shm::Engine& engine() { return engine_; }
  [[nodiscard]] const shm::Segment& segment() const { return segment_; }
  /// Abandons what is in flight and leaves on purpose: the others do not take it for a death.
  void leave();

 private:
  friend std::unique_ptr<ShmLink> connect_shm(c10d::Store& store, const GroupOptions& options,
                                              GroupFlight* flight);

  shm::SharedMemory memory_;
  memory::Held held_;
  shm::Segment segment_;
  std::optional<shm::Liveness> liveness_;
  shm::Engine engine_;
};

/// Collective. Rank 0 makes the memory and tells the others through the store.
/// \param flight outlives the link; null = nothing is recorded.
/// \throws EnvironmentFault (LS-4010, LS-4011), PeerLost (LS-4005) when a rank does not come.
[[nodiscard]] std::unique_ptr<ShmLink> connect_shm(c10d::Store& store, const GroupOptions& options,
                                                   GroupFlight* flight);

/// What the ranks of one host have in common, and no others: the running kernel, the view of
/// processes, and the user.
[[nodiscard]] std::string host_identity();

/// The element type of a tensor's dtype. \throws Bug for one that shm does not move.
[[nodiscard]] shm::ElementType element_type(at::ScalarType dtype);

[[nodiscard]] shm::Reduction reduction_of(ReduceOp op);

}  // namespace lockstep::comm
