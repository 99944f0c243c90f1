#include "lockstep/comm/records/group_flight.h"

#include <utility>

#include "lockstep/comm/records/flight_folder.h"

namespace lockstep::comm {
namespace {

std::shared_ptr<FlightRecorder> given_or_own(std::shared_ptr<FlightRecorder> given, int rank,
                                             int size) {
  return given ? std::move(given) : std::make_shared<FlightRecorder>(rank, size);
}

}  // namespace

GroupFlight::GroupFlight(std::shared_ptr<FlightRecorder> recorder, std::string_view name, int rank,
                         int size)
    : recorder_(given_or_own(std::move(recorder), rank, size)),
      group_(recorder_->add_group(name, rank, size)) {}

std::string GroupFlight::failure_text(Ticket ticket, std::string_view deadline,
                                      std::string_view cause) const {
  const RankFlight flight = recorder_->snapshot();
  const CollectiveRecord* failed = nullptr;
  const CollectiveRecord* completed = nullptr;
  for (const CollectiveRecord& record : flight.records) {
    if (record.group != group_) continue;
    const auto index = static_cast<std::uint64_t>(record.index);
    if (ticket.index != 0 ? index == ticket.index
                          : !record.message && record.sequence == ticket.sequence) {
      failed = &record;
    }
    if (record.state != CollectiveState::completed || record.message) continue;
    if (completed == nullptr || record.sequence > completed->sequence) completed = &record;
  }
  std::string text = failed != nullptr      ? describe(*failed)
                     : ticket.sequence == 0 ? "a message"
                                            : "collective #" + std::to_string(ticket.sequence);
  text += " failed (deadline " + std::string(deadline) + "): " + std::string(cause);
  text += completed != nullptr ? "; last completed here: " + describe(*completed)
                               : "; none had completed before";
  const std::string verdict = verdict_beside(*recorder_);
  return verdict.empty() ? text : text + "; " + verdict;
}

}  // namespace lockstep::comm
