#include "lockstep/comm/records/flight_values.h"

#include <array>

namespace lockstep::comm {

std::string_view name(Phase phase) {
  static constexpr std::array<std::string_view, kPhases> kNames{
      "start", "data", "forward", "backward", "sync", "optimizer", "eval", "checkpoint"};
  return kNames.at(static_cast<std::size_t>(phase));
}

std::string_view name(CollectiveState state) {
  static constexpr std::array<std::string_view, kCollectiveStates> kNames{"entered", "started",
                                                                          "completed", "failed"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::string title(const CollectiveRecord& record) {
  if (!record.message) return record.op + " #" + std::to_string(record.sequence);
  const MessageEnd& end = *record.message;
  return record.op + (end.sends ? " to " : " from ") +
         (end.peer < 0 ? "any rank" : "rank " + std::to_string(end.peer)) + " (tag " +
         std::to_string(end.tag) + ")";
}

std::string describe(const CollectiveRecord& record) {
  std::string text = title(record);
  if (record.dtype.empty()) return text;
  return text + " (" + record.dtype + ", " + std::to_string(record.count) +
         (record.count == 1 ? " element)" : " elements)");
}

}  // namespace lockstep::comm
