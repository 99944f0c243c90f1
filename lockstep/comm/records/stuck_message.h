// A message between two ranks that does not end.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_verdict.h"

namespace lockstep::comm {

/// One rank's oldest open message, or the one it gave up on last.
struct StuckMessage {
  const RankView* waiter = nullptr;
  const CollectiveRecord* record = nullptr;
  const RankView* peer = nullptr;           // null: any rank, or one that left no flight record
  const CollectiveRecord* other = nullptr;  // the same message at its other end; null = not there

  [[nodiscard]] double wait_s() const;
  [[nodiscard]] const std::string& group() const {
    return waiter->flight.groups[record->group].name;
  }
};

/// At most one for each rank.
[[nodiscard]] std::vector<StuckMessage> stuck_messages(const std::vector<RankView>& views);

}  // namespace lockstep::comm
