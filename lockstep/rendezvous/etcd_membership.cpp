#include "lockstep/rendezvous/etcd_membership.h"

#include <set>
#include <utility>

namespace lockstep::rendezvous {
namespace {

// More than an agent may run on without an answer (NodeTimes::fence_s): once a lease has ended, the
// ranks of its agent have, too. Less than etcd's least (two seconds by default) it cannot be.
constexpr std::chrono::seconds kLease{3};
// The first byte of a record's value.
constexpr char kHere = 'R';
constexpr char kLeft = 'L';

}  // namespace

EtcdMembership::EtcdMembership(std::vector<Endpoint> endpoints, const std::string& prefix,
                               std::string agent, std::chrono::seconds state_life)
    : client_(std::move(endpoints)),
      agents_key_(prefix + "/agents/"),
      leader_key_(prefix + "/leader"),
      state_key_(prefix + "/state"),
      agent_(std::move(agent)),
      state_life_(state_life) {}

EtcdOperation EtcdMembership::put_record(const std::string& record) const {
  return {EtcdOperation::Kind::put, agents_key_ + agent_, kHere + record, lease_};
}

EtcdOperation EtcdMembership::range_of(const std::string& key) const {
  return {EtcdOperation::Kind::range, key};
}

void EtcdMembership::take_turn(const EtcdWrites& writes, std::vector<BoardEvent>& events) {
  if (writes.record) keep_lease(writes, events);
  if (leading_since_ != 0) {
    lead(writes, events);
  } else {
    follow(writes, events);
  }
  if (writes.record) events.push_back({BoardEvent::Kind::heard, {}, {}, writes.published});
}

/// Before the record is written, so that the lease outlives it by its whole time.
void EtcdMembership::keep_lease(const EtcdWrites& writes, std::vector<BoardEvent>& events) {
  record_ = *writes.record;
  const auto asked = Clock::now();
  if (lease_ != 0 && !client_.keep_lease(lease_)) {
    lease_ = 0;
    has_record_ = false;
    stop_leading(events);
  }
  if (lease_ == 0) lease_ = client_.grant_lease(kLease);
  kept_ = asked;
}

void EtcdMembership::follow(const EtcdWrites& writes, std::vector<BoardEvent>& events) {
  std::vector<EtcdOperation> operations;
  if (writes.record) operations.push_back(put_record(*writes.record));
  operations.push_back(range_of(leader_key_));
  operations.push_back(range_of(state_key_));
  const EtcdAnswer answer = client_.transact({}, operations, {});
  if (writes.record) has_record_ = true;
  const auto& leader = answer.ranges.at(0);
  const auto& state = answer.ranges.at(1);
  if (!leader.empty() && leader[0].value == agent_) {
    // It was made by a request whose answer was lost, or etcd was away for longer than a lease.
    return begin_leading(leader[0].create_revision, state, events);
  }
  see_leader(leader, events);
  see_state(state, events);
  if (leader.empty() && has_record_) run_for_leader(events);
}

/// Whoever comes first makes the key.
void EtcdMembership::run_for_leader(std::vector<BoardEvent>& events) {
  const EtcdAnswer answer = client_.transact(
      {{leader_key_, 0}},
      {{EtcdOperation::Kind::put, leader_key_, agent_, lease_}, range_of(state_key_)}, {});
  if (answer.succeeded) begin_leading(answer.revision, answer.ranges.at(0), events);
}

void EtcdMembership::begin_leading(std::int64_t since, const std::vector<EtcdKey>& state,
                                   std::vector<BoardEvent>& events) {
  leading_since_ = since;
  ++terms_;
  records_revision_ = 0;
  agents_.clear();
  leader_ = agent_;
  state_.clear();
  state_waits_ = false;
  state_lease_ = 0;
  if (!state.empty()) state_revision_ = state[0].mod_revision;
  events.push_back({BoardEvent::Kind::leading, agent_, state.empty() ? "" : state[0].value});
  lead({}, events);
}

void EtcdMembership::lead(const EtcdWrites& writes, std::vector<BoardEvent>& events) {
  std::vector<EtcdOperation> operations;
  if (writes.state && writes.term == terms_) {
    state_ = *writes.state;
    state_waits_ = true;
  }
  if (!state_.empty()) keep_state_lease();
  if (state_waits_) {
    operations.push_back({EtcdOperation::Kind::put, state_key_, state_, state_lease_});
  }
  if (writes.record) operations.push_back(put_record(*writes.record));
  operations.push_back(range_of(state_key_));
  EtcdOperation records = range_of(agents_key_);
  records.is_prefix = true;
  records.from_revision = records_revision_ + 1;
  operations.push_back(records);
  records.from_revision = 0;
  records.keys_only = true;
  operations.push_back(records);
  const EtcdAnswer answer = client_.transact({{leader_key_, leading_since_}}, operations, {});
  if (!answer.succeeded) {
    stop_leading(events);
    return follow(writes, events);
  }
  if (writes.record) has_record_ = true;
  state_waits_ = false;
  see_state(answer.ranges.at(0), events);
  see_records(answer.ranges.at(1), answer.ranges.at(2), events);
  if (std::exchange(records_revision_, answer.revision) == 0) {
    events.push_back({BoardEvent::Kind::listed, {}, {}});
  }
}

/// It is asked for seldom, and always long before it would end.
void EtcdMembership::keep_state_lease() {
  const auto now = Clock::now();
  if (state_lease_ != 0 && now < state_kept_ + state_life_ / 6) return;
  if (state_lease_ == 0 || !client_.keep_lease(state_lease_)) {
    state_lease_ = client_.grant_lease(state_life_);
    state_waits_ = true;
  }
  state_kept_ = now;
}

void EtcdMembership::stop_leading(std::vector<BoardEvent>& events) {
  if (std::exchange(leading_since_, 0) == 0) return;
  leader_.clear();
  leader_told_ = true;
  events.push_back({BoardEvent::Kind::not_leading, {}, {}});
}

void EtcdMembership::judge_silence(std::vector<BoardEvent>& events) {
  if (Clock::now() >= kept_ + kLease) stop_leading(events);
}

void EtcdMembership::see_leader(const std::vector<EtcdKey>& keys, std::vector<BoardEvent>& events) {
  if (keys.empty()) return;
  if (std::exchange(leader_told_, true) && leader_ == keys[0].value) return;
  leader_ = keys[0].value;
  events.push_back({BoardEvent::Kind::not_leading, leader_, {}});
}

void EtcdMembership::see_state(const std::vector<EtcdKey>& keys, std::vector<BoardEvent>& events) {
  if (keys.empty() || keys[0].mod_revision <= state_revision_) return;
  state_revision_ = keys[0].mod_revision;
  events.push_back({BoardEvent::Kind::state, {}, keys[0].value});
}

void EtcdMembership::see_records(const std::vector<EtcdKey>& changed,
                                 const std::vector<EtcdKey>& all, std::vector<BoardEvent>& events) {
  for (const EtcdKey& key : changed) {
    const std::string agent = key.key.substr(agents_key_.size());
    Seen& seen = agents_[agent];
    if (key.mod_revision <= seen.revision || key.value.empty()) continue;
    seen.revision = key.mod_revision;
    const bool leaves = key.value[0] == kLeft;
    if (!leaves) {
      events.push_back({BoardEvent::Kind::record, agent, key.value.substr(1)});
    } else if (!seen.has_left) {
      events.push_back({BoardEvent::Kind::gone, agent, {}});
    }
    seen.has_left = leaves;
  }
  std::set<std::string> there;
  for (const EtcdKey& key : all) there.insert(key.key.substr(agents_key_.size()));
  for (auto entry = agents_.begin(); entry != agents_.end();) {
    if (there.contains(entry->first)) {
      ++entry;
      continue;
    }
    if (!entry->second.has_left) {
      events.push_back({BoardEvent::Kind::gone, entry->first, {}, {}, true});
    }
    entry = agents_.erase(entry);
  }
}

/// The others need not wait for the lease's end: the record says so, and the key "leader" goes.
void EtcdMembership::leave() {
  if (lease_ == 0) return;
  EtcdOperation left = put_record(record_);
  left.value = kLeft;
  EtcdOperation vacant{EtcdOperation::Kind::remove, leader_key_};
  std::vector<EtcdOperation> operations{left, vacant};
  (void)client_.transact({{leader_key_, leading_since_}}, operations, {left});
}

}  // namespace lockstep::rendezvous
