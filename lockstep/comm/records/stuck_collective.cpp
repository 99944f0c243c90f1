#include "lockstep/comm/records/stuck_collective.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/comm/records/flight_words.h"

namespace lockstep::comm {
namespace {

int world_size_of(const std::vector<RankView>& views) {
  int size = 0;
  for (const RankView& view : views) size = std::max(size, view.flight.world_size);
  return size;
}

Member member_of(const RankView& view, const std::string& group) {
  Member member{&view};
  const RankFlight& flight = view.flight;
  const auto row = std::find_if(flight.groups.begin(), flight.groups.end(),
                                [&](const FlightGroup& g) { return g.name == group; });
  if (row == flight.groups.end()) return member;
  member.entered = row->entered;
  const auto id = static_cast<std::size_t>(row - flight.groups.begin());
  for (const CollectiveRecord& record : flight.records) {
    if (record.group != id || record.message) continue;
    member.records.emplace(record.sequence, &record);
    member.entered = std::max(member.entered, record.sequence);
  }
  return member;
}

bool knows(const RankView& view, const std::string& group) {
  return std::any_of(view.flight.groups.begin(), view.flight.groups.end(),
                     [&](const FlightGroup& g) { return g.name == group; });
}

/// What all ranks must agree on. The parts of an all_to_all may be uneven.
bool same_call(const CollectiveRecord& a, const CollectiveRecord& b) {
  if (a.op != b.op || a.dtype != b.dtype) return false;
  return a.count == b.count || a.op.starts_with("all_to_all");
}

GroupView group_view(const std::vector<RankView>& views, const std::string& name, int size) {
  const int world = world_size_of(views);
  GroupView group{name};
  std::set<int> present;
  for (const RankView& view : views) {
    // A group of all ranks has those too that have not made it yet.
    if (size != world && !knows(view, name)) continue;
    if (!present.insert(view.flight.rank).second) continue;
    group.members.push_back(member_of(view, name));
  }
  std::sort(group.members.begin(), group.members.end(),
            [](const Member& a, const Member& b) { return a.rank() < b.rank(); });
  if (size == world) {
    for (int r = 0; r < world; ++r) {
      if (!present.contains(r)) group.absent.push_back(r);
    }
  } else {
    group.unknown = std::max(0, size - static_cast<int>(group.members.size()));
  }
  return group;
}

StuckCollective look_at_sequence(const GroupView& group, const CollectiveRecord& record) {
  StuckCollective stuck{&group, &record};
  for (const Member& member : group.members) {
    if (member.entered < record.sequence) stuck.missing.push_back(&member);
    const CollectiveRecord* own = member.find(record.sequence);
    if (own == nullptr) continue;
    const bool completed = own->state == CollectiveState::completed;
    if (!completed) stuck.waiting.push_back(&member);
    stuck.completed = stuck.completed || completed;
    stuck.gave_up = stuck.gave_up || own->state == CollectiveState::failed;
    stuck.differs = stuck.differs || !same_call(*own, record);
  }
  return stuck;
}

}  // namespace

const CollectiveRecord* Member::find(std::int64_t sequence) const {
  const auto row = records.find(sequence);
  return row == records.end() ? nullptr : row->second;
}

double StuckCollective::longest_wait_s() const {
  double longest = 0;
  for (const Member* member : waiting) {
    longest = std::max(longest, waited_s(*member->view, *member->find(record->sequence)));
  }
  return longest;
}

double StuckCollective::shortest_wait_s() const {
  double shortest = std::numeric_limits<double>::max();
  for (const Member* member : waiting) {
    shortest = std::min(shortest, waited_s(*member->view, *member->find(record->sequence)));
  }
  return shortest;
}

std::vector<GroupView> groups_of(const std::vector<RankView>& views) {
  std::map<std::string, int> sizes;
  for (const RankView& view : views) {
    for (const FlightGroup& group : view.flight.groups) {
      int& size = sizes[group.name];
      size = std::max(size, group.size);
    }
  }
  std::vector<GroupView> groups;
  for (const auto& [name, size] : sizes) groups.push_back(group_view(views, name, size));
  return groups;
}

std::vector<StuckCollective> stuck_collectives(const std::vector<GroupView>& groups) {
  std::vector<StuckCollective> all;
  for (const GroupView& group : groups) {
    std::map<std::int64_t, const CollectiveRecord*> open;
    for (const Member& member : group.members) {
      for (const auto& [sequence, record] : member.records) {
        if (record->state != CollectiveState::completed) open.emplace(sequence, record);
      }
    }
    std::optional<StuckCollective> first;
    for (const auto& [sequence, record] : open) {
      StuckCollective stuck = look_at_sequence(group, *record);
      const bool settled = stuck.all_entered() && stuck.completed && !stuck.gave_up;
      if (!first || !settled) first = std::move(stuck);
      if (!settled) break;
    }
    if (first) all.push_back(std::move(*first));
  }
  return all;
}

}  // namespace lockstep::comm
