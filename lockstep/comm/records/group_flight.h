// One group's collectives and messages in the flight recorder of its rank: what every backend
// calls.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::comm {

/// Thread-safe. begin() when this rank enters, started() when the backend has it, ended() when its
/// result is there or it failed, on whatever thread notices first.
class GroupFlight {
 public:
  /// \param recorder of the process; null = one of its own, in memory. \param rank within the
  /// group.
  GroupFlight(std::shared_ptr<FlightRecorder> recorder, std::string_view name, int rank, int size);

  [[nodiscard]] Ticket begin(std::string_view op, std::string_view dtype, std::int64_t count,
                             std::int64_t bytes, std::string_view site = Purpose::current()) {
    return recorder_->begin(group_, op, dtype, count, bytes, site);
  }
  [[nodiscard]] Ticket begin_message(const MessageEnd& end, std::string_view dtype,
                                     std::int64_t count, std::int64_t bytes) {
    return recorder_->begin_message(group_, end, dtype, count, bytes, Purpose::current());
  }
  void started(Ticket ticket) { recorder_->started(ticket); }
  void ended(Ticket ticket, bool ok) { recorder_->ended(ticket, ok); }
  [[nodiscard]] std::int64_t ended_ns(Ticket ticket) const { return recorder_->ended_ns(ticket); }

  /// "all_reduce #2 (float32, 1024 elements) failed (deadline 300 ms): <cause>; last completed
  /// here: ...; <the verdict of all ranks>". Call it after ended(ticket, false).
  [[nodiscard]] std::string failure_text(Ticket ticket, std::string_view deadline,
                                         std::string_view cause) const;

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  FlightRecorder::GroupId group_;
};

}  // namespace lockstep::comm
