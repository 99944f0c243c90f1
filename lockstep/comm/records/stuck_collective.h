// One collective that does not end, as all ranks of its group see it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_verdict.h"

namespace lockstep::comm {

/// A rank in one group. Records by sequence; those that left the ring are not there.
struct Member {
  const RankView* view = nullptr;
  std::int64_t entered = 0;  // sequence of its last collective
  std::map<std::int64_t, const CollectiveRecord*> records{};

  [[nodiscard]] int rank() const { return view->flight.rank; }
  /// nullptr when it has not entered, or the record has left the ring.
  [[nodiscard]] const CollectiveRecord* find(std::int64_t sequence) const;
};

struct GroupView {
  std::string name{};
  std::vector<Member> members{};  // in order of rank
  std::vector<int> absent{};      // its ranks that left no flight record
  int unknown = 0;                // how many more it has, whoever they are
};

struct StuckCollective {
  const GroupView* group = nullptr;
  const CollectiveRecord* record = nullptr;  // of one rank that is in it
  std::vector<const Member*> waiting{};      // entered it; not completed
  std::vector<const Member*> missing{};      // have not entered it
  bool differs = false;                      // what they entered is not the same
  bool completed = false;                    // on some rank
  bool gave_up = false;                      // a rank's wait failed

  /// Of the rank that waits longest.
  [[nodiscard]] double longest_wait_s() const;
  /// Since the last rank entered.
  [[nodiscard]] double shortest_wait_s() const;
  [[nodiscard]] bool all_entered() const {
    return missing.empty() && group->absent.empty() && group->unknown == 0;
  }
};

/// Every group that a rank knows; the ranks of a group of all ranks include those without a record.
[[nodiscard]] std::vector<GroupView> groups_of(const std::vector<RankView>& views);

/// The open collective of each group with the lowest sequence; groups without one have none. One
/// that all entered and some rank has completed counts only when there is no other: a rank may
/// notice the end of what it does not wait for yet later than others.
[[nodiscard]] std::vector<StuckCollective> stuck_collectives(const std::vector<GroupView>& groups);

}  // namespace lockstep::comm
