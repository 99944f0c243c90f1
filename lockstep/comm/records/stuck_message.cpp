#include "lockstep/comm/records/stuck_message.h"

#include "lockstep/comm/records/flight_words.h"

namespace lockstep::comm {
namespace {

/// A message that is open counts before one that was given up: that ended because the group did.
/// One that was given up is history when the rank began something else since.
const CollectiveRecord* stuck_record(const RankView& view) {
  if (view.flight.finished) return nullptr;
  const bool waits =
      view.process.state != ProcessState::gone && view.process.state != ProcessState::stopped;
  const CollectiveRecord* stuck = nullptr;
  for (const CollectiveRecord& record : view.flight.records) {
    if (!record.message || record.state == CollectiveState::completed) continue;
    if (record.in_flight() && waits) return &record;
    if (record.state != CollectiveState::failed) continue;
    if (view.flight.records.back().entered_ns <= record.finished_ns) stuck = &record;
  }
  return stuck;
}

const RankView* member(const std::vector<RankView>& views, const std::string& group, int rank) {
  for (const RankView& view : views) {
    for (const FlightGroup& own : view.flight.groups) {
      if (own.name == group && own.rank == rank) return &view;
    }
  }
  return nullptr;
}

const CollectiveRecord* other_end(const StuckMessage& stuck) {
  const MessageEnd& end = *stuck.record->message;
  const int me = stuck.waiter->flight.groups[stuck.record->group].rank;
  for (const CollectiveRecord& record : stuck.peer->flight.records) {
    if (!record.message || record.state == CollectiveState::completed) continue;
    if (stuck.peer->flight.groups[record.group].name != stuck.group()) continue;
    const MessageEnd& theirs = *record.message;
    const bool from_me = theirs.peer == me || theirs.peer < 0;
    if (theirs.sends != end.sends && theirs.tag == end.tag && from_me) return &record;
  }
  return nullptr;
}

}  // namespace

double StuckMessage::wait_s() const { return waited_s(*waiter, *record); }

std::vector<StuckMessage> stuck_messages(const std::vector<RankView>& views) {
  std::vector<StuckMessage> all;
  for (const RankView& view : views) {
    StuckMessage stuck{&view, stuck_record(view)};
    if (stuck.record == nullptr) continue;
    const int peer = stuck.record->message->peer;
    if (peer >= 0) stuck.peer = member(views, stuck.group(), peer);
    if (stuck.peer != nullptr) stuck.other = other_end(stuck);
    all.push_back(stuck);
  }
  return all;
}

}  // namespace lockstep::comm
