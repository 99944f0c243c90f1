// What the calls of one group over shared memory share, c10d's and our own.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {

/// Lives as long as the last of the calls.
struct ShmContext {
  explicit ShmContext(const GroupOptions& given)
      : options(given), flight(given.flight, given.name, given.rank, given.size) {}

  /// `lost` with where this is, and what the flight record says about the collective or message.
  [[nodiscard]] Problem told(const PeerLost& lost, Ticket ticket,
                             std::chrono::milliseconds deadline) const;
  /// Gives what is in flight a moment to end, then leaves the group. Not on the engine's thread.
  void close();

  const GroupOptions options;
  GroupFlight flight;
  std::unique_ptr<ShmLink> link;  // goes first: its engine records ends

 private:
  std::once_flag closed_;
};

}  // namespace lockstep::comm
