// What the calls of one group over shared memory share, c10d's and our own.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/comm/symmetric_arrays.h"

namespace lockstep::comm {

/// Lives as long as the last of the calls.
struct ShmContext {
  explicit ShmContext(const GroupOptions& given)
      : options(given), flight(given.flight, given.name, given.rank, given.size) {}

  /// `lost` with where this is, and what the flight record says about the collective or message.
  [[nodiscard]] Problem told(const PeerLost& lost, Ticket ticket,
                             std::chrono::milliseconds deadline) const;
  /// Tells an all_reduce when its memory is symmetric. \pre its input is set.
  void find_symmetric(shm::Request& request, std::size_t bytes) const;
  /// Leaves the group; what is still in flight fails. Not on the engine's thread.
  /// \param patience for what is in flight to end.
  void close(std::chrono::milliseconds patience);

  const GroupOptions options;
  GroupFlight flight;
  SymmetricArrays symmetric;
  std::unique_ptr<ShmLink> link;  // goes first: its engine records ends

 private:
  std::once_flag closed_;
};

}  // namespace lockstep::comm
