// Before a round: until enough hosts are there.
#include <set>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/rendezvous/coordinator.h"
#include "lockstep/rendezvous/seating.h"

namespace lockstep::rendezvous {
namespace {

using Kind = RanksReport::Kind;
using Phase = JobState::Phase;

constexpr std::size_t kMostNames = 8;  // in one line

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) {
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  return text;
}

bool has_live_ranks(const Record& record) {
  return record.ranks.kind == Kind::running || record.ranks.kind == Kind::failing;
}

}  // namespace

void Coordinator::gather(double now_s, Outputs& out) {
  if (const std::string leaver = leaver_who_ends_the_job(); !leaver.empty()) {
    return end({Exit::requeue, {}, {}, leaver + " was asked to stop"}, now_s, out);
  }
  const std::vector<const Host*> ready = ready_hosts(now_s);
  if (is_time_to_start(ready.size(), now_s)) return start(ready, now_s, out);
  describe_waiting(ready, now_s);
  const double limit_s = gathers_since_s_ + settings_.join_timeout_s;
  if (ready.size() >= static_cast<std::size_t>(settings_.min_nodes)) return;
  wake_by(limit_s);
  if (now_s < limit_s) return;
  end({Exit::environment,
       {},
       {},
       "not enough hosts came within " + format_duration(settings_.join_timeout_s) + ": " +
           waiting_for_},
      now_s, out);
}

/// A host may be asked to go without the job when others can take its place, or have not begun.
std::string Coordinator::leaver_who_ends_the_job() const {
  const bool is_elastic = settings_.min_nodes < settings_.max_nodes;
  const bool has_begun = generation_ >= first_generation_;
  for (const auto& [id, host] : hosts_) {
    if (!host.record || !host.record->leaving || !host.is_admitted) continue;
    const bool takes_board_along = id == own_id_ && settings_.ends_with_leader;
    if (takes_board_along || (!is_elastic && has_begun && host.is_seated)) return host.name;
  }
  return "";
}

bool Coordinator::is_ready(const Host& host, double now_s) const {
  if (!host.record || !host.is_admitted || host.record->leaving) return false;
  if (host.is_seated && host.record->cleared < generation_) return false;
  return !has_live_ranks(*host.record) && is_fresh(host, now_s);
}

/// In the order in which they joined.
std::vector<const Coordinator::Host*> Coordinator::ready_hosts(double now_s) {
  std::vector<const Host*> ready;
  std::vector<const Host*> held;  // that may come if the job cannot do without: it went once
  for (const auto& [id, host] : hosts_) {
    if (!is_ready(host, now_s)) continue;
    if (now_s >= host.held_until_s) {
      ready.push_back(&host);
      continue;
    }
    wake_by(host.held_until_s);
    if (holds_.times_gone(host.record->agent) == 1) held.push_back(&host);
  }
  if (ready.size() < static_cast<std::size_t>(settings_.min_nodes)) {
    ready.insert(ready.end(), held.begin(), held.end());
  }
  std::sort(ready.begin(), ready.end(),
            [](const Host* one, const Host* other) { return one->order < other->order; });
  return ready;
}

/// Hosts that were there a moment ago: they come back or are given up within seconds.
bool Coordinator::awaits_others(double now_s) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const auto& item) {
    const Host& host = item.second;
    const bool may_come = host.record && host.is_admitted && !host.record->leaving;
    return may_come && now_s >= host.held_until_s && !is_ready(host, now_s);
  });
}

/// Of a round that this leader did not begin, on hosts that say so: they are being told to end.
bool Coordinator::has_older_ranks() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const auto& item) {
    return item.second.record && has_live_ranks(*item.second.record) && !item.second.is_proven;
  });
}

bool Coordinator::is_time_to_start(std::size_t ready, double now_s) {
  const auto enough = static_cast<std::size_t>(settings_.min_nodes);
  if (ready < enough) {
    is_short_ = true;
    enough_since_s_.reset();
    return false;
  }
  if (!enough_since_s_) enough_since_s_ = now_s;
  const bool has_heard_all = is_listed_ || settings_.ends_with_leader;
  if (!has_heard_all || has_older_ranks()) return false;
  double start_s = std::max(not_before_s_, now_s);
  if (ready < static_cast<std::size_t>(settings_.max_nodes)) {
    const bool is_first = generation_ < first_generation_;
    if (is_first) {
      start_s = std::max(start_s, *enough_since_s_ + settings_.last_call_s);
    } else if (is_short_) {
      start_s = std::max(start_s, *enough_since_s_ + settings_.times.settle_s);
    } else if (awaits_others(now_s)) {
      return false;
    }
  }
  if (now_s >= start_s) return true;
  wake_by(start_s);
  return false;
}

void Coordinator::start(const std::vector<const Host*>& ready, double now_s, Outputs& out) {
  std::vector<Agent> agents;
  for (const Host* host : ready) agents.push_back(host->record->agent);
  seats_ = assign_seats(agents, seats_, static_cast<std::size_t>(settings_.max_nodes));
  for (auto& [id, host] : hosts_) host.is_seated = false;
  for (Seat& seat : seats_) {
    Host& host = hosts_.at(seat.agent.id);
    host.is_seated = true;
    seat.beat = host.record->beat;
  }
  generation_ = std::max(generation_, newest_generation_) + 1;
  round_began_s_ = now_s;
  is_short_ = false;
  enough_since_s_.reset();
  suspects_since_s_.reset();
  cause_ = StopCause::none;
  because_.clear();
  lost_.clear();
  waiting_for_ = "a place: all " + std::to_string(settings_.max_nodes) + " are taken";
  go_to(Phase::running);
  out.push_back(Note{"round " + std::to_string(generation_) + " starts on " +
                     std::to_string(seats_.size()) + " hosts"});
}

void Coordinator::describe_waiting(const std::vector<const Host*>& ready, double now_s) {
  std::vector<std::string> here;
  for (const Host* host : ready) here.push_back(host->name);
  const std::set<const Host*> is_here(ready.begin(), ready.end());
  std::vector<std::string> held;
  std::vector<std::string> others;
  for (const auto& [id, host] : hosts_) {
    if (!host.record || !host.is_admitted || host.record->leaving) continue;
    if (is_here.contains(&host)) continue;
    const bool is_held = is_ready(host, now_s);
    (is_held ? held : others).push_back(host.name);
  }
  std::string text = std::to_string(ready.size()) + " of " + std::to_string(settings_.max_nodes) +
                     " hosts " + (ready.size() == 1 ? "is here: " : "are here: ") + listed(here);
  if (!held.empty()) text += "; held off, because they came and went: " + listed(held);
  if (!others.empty()) text += "; not ready: " + listed(others);
  if (ready.size() < static_cast<std::size_t>(settings_.min_nodes)) text += missing_text(ready);
  if (text == waiting_for_) return;
  waiting_for_ = text;
  has_new_text_ = true;
}

std::string Coordinator::missing_text(const std::vector<const Host*>& ready) const {
  std::vector<std::string> missing;
  for (const std::string& name : settings_.expected_hosts) {
    const bool is_here = std::any_of(ready.begin(), ready.end(), [&](const Host* host) {
      return host->record->agent.host == name || host->record->agent.address == name;
    });
    if (!is_here) missing.push_back(name);
  }
  const bool some_asked = std::any_of(ready.begin(), ready.end(), [](const Host* host) {
    return host->record->agent.node_rank >= 0;
  });
  for (int rank = 0; missing.empty() && some_asked && rank < settings_.max_nodes; ++rank) {
    const bool is_here = std::any_of(ready.begin(), ready.end(), [&](const Host* host) {
      return host->record->agent.node_rank == rank;
    });
    if (!is_here) missing.push_back("node rank " + std::to_string(rank));
  }
  std::string text = "; missing: ";
  const auto count = static_cast<std::size_t>(settings_.min_nodes) - ready.size();
  text +=
      missing.empty() ? std::to_string(count) + (count == 1 ? " host" : " hosts") : listed(missing);
  if (!lost_.empty()) text += "; gone: " + listed(lost_);
  return text;
}

}  // namespace lockstep::rendezvous
