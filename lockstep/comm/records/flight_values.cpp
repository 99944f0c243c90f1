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

std::string describe(const CollectiveRecord& record) {
  std::string text = record.op + " #" + std::to_string(record.sequence);
  if (record.dtype.empty()) return text;
  return text + " (" + record.dtype + ", " + std::to_string(record.count) +
         (record.count == 1 ? " element)" : " elements)");
}

}  // namespace lockstep::comm
