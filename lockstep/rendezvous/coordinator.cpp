#include "lockstep/rendezvous/coordinator.h"

#include <limits>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/rendezvous/admission.h"

namespace lockstep::rendezvous {
namespace {

using Phase = JobState::Phase;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLookAgain = 0.1;      // of a heartbeat
constexpr double kHearsBeats = 2;       // from one answer to the next, and some
constexpr double kFreshBeats = 3;       // a host that missed so many may have gone
constexpr double kStoppedBeats = 2;     // without a step: this process itself was stopped
constexpr std::size_t kManyHosts = 32;  // texts for people reach them less often

/// Beside the sign of life.
bool says_the_same(const Record& one, const Record& other) {
  return one.generation == other.generation && one.cleared == other.cleared &&
         one.ranks.generation == other.ranks.generation && one.ranks.kind == other.ranks.kind &&
         one.leaving == other.leaving && one.finished == other.finished;
}

}  // namespace

Coordinator::Coordinator(const NodeSettings& settings, const std::shared_ptr<const JobState>& last,
                         Part part, std::shared_ptr<const Record> own, double now_s)
    : settings_(settings),
      own_(std::move(own)),
      own_id_(own_->agent.id),
      holds_(settings.times),
      gathers_since_s_(now_s),
      settled_s_(now_s) {
  if (last) continue_from(*last, part, now_s);
  take(own_, now_s);
}

void Coordinator::continue_from(const JobState& last, Part part, double now_s) {
  version_ = last.version;
  generation_ = last.generation;
  first_generation_ = generation_ + 1;
  is_newcomer_ = part != Part::seated;
  const bool is_other_job =
      last.run_id != settings_.run_id || (last.phase == Phase::ended && part == Part::none);
  if (is_other_job) return;
  if (!are_equal(last.equal, own_->agent.equal, settings_)) {
    doubts_until_s_ = now_s + settings_.times.lost_s;
    equal_of_job_ = last.equal;
    name_of_job_ = last.leader_name;
  }
  first_generation_ = last.first_generation;
  phase_ = last.phase;
  restart_count_ = last.restart_count;
  seats_ = last.seats;
  cause_ = last.cause;
  because_ = last.because;
  last_end_ = last.last_end;
  lost_ = last.lost;
  best_step_ = last.best_step;
  rounds_at_best_ = last.rounds_at_best;
  verdict_ = last.verdict;
  ended_s_ = round_began_s_ = now_s;
  holds_.continue_from(last.strikes, now_s);
  for (const Seat& seat : seats_) {
    Host& host = hosts_[seat.agent.id];
    host.name = name_of(seat.agent);
    host.heard_s = host.joined_s = now_s;
    host.order = next_order_++;
    host.is_admitted = host.is_seated = true;
  }
  // A leader whose board goes with it may have announced what never came here.
  if (settings_.ends_with_leader) not_before_s_ = now_s + settings_.times.lost_s;
}

void Coordinator::take(const std::shared_ptr<const Record>& record, double now_s) {
  const auto [place, is_new] = hosts_.try_emplace(record->agent.id);
  Host& host = place->second;
  if (host.record && record->beat <= host.record->beat) return;
  if (is_new) {
    host.order = next_order_++;
    host.joined_s = now_s;
    host.name = name_of(record->agent);
    host.held_until_s = holds_.held_until_s(record->agent);
  }
  is_dirty_ =
      is_dirty_ || is_new || !host.record || host.is_gone || !says_the_same(*host.record, *record);
  if (!host.record) host.first_beat = record->beat;
  host.record = record;
  host.heard_s = now_s;
  host.is_gone = host.is_proven = false;
  newest_generation_ = std::max(newest_generation_, record->generation);
  newest_version_ = std::max(newest_version_, record->version);
  if (record->agent.id == own_id_) own_ = record;
}

void Coordinator::refuse_unreadable(const RecordUnreadable& unreadable, double now_s) {
  const auto [place, is_new] = hosts_.try_emplace(unreadable.agent);
  if (!is_new) return;
  Host& host = place->second;
  host.name = "agent " + unreadable.agent;
  host.heard_s = host.joined_s = now_s;
  host.is_refused = true;
  refused_.push_back({unreadable.agent,
                      Exit::environment,
                      {"LS-3021", host.name, "its record cannot be read: " + unreadable.because,
                       "start the same version of lockstep on all hosts"}});
  has_changed_ = is_dirty_ = true;
}

void Coordinator::host_gone(const AgentGone& gone) {
  const auto found = hosts_.find(gone.agent);
  if (found == hosts_.end() || gone.agent == own_id_) return;
  found->second.is_gone = true;
  found->second.is_proven = gone.proven;
  is_dirty_ = true;
}

/// Who has a seat and no record is gone, and its ranks are.
void Coordinator::all_listed() {
  for (auto& [id, host] : hosts_) {
    if (!host.record && !host.is_refused) host.is_gone = host.is_proven = true;
  }
  is_dirty_ = is_listed_ = true;
}

void Coordinator::outwait(double led_until_s, double now_s, Outputs& out) {
  const double until_s = std::min(led_until_s, now_s) + settings_.times.lost_s;
  not_before_s_ = std::max(not_before_s_, until_s);
  out.push_back(
      Note{"another agent led this job here until a moment ago: no round starts before "
           "the ranks that it may have elsewhere have surely ended, in " +
           format_duration(not_before_s_ - now_s)});
}

void Coordinator::settle(double now_s, std::optional<double> answered_s, Outputs& out) {
  be_patient(now_s);
  hears_until_s_ = answered_s.value_or(now_s) + kHearsBeats * settings_.times.heartbeat_s;
  hosts_.at(own_id_).heard_s = now_s;
  if (doubts_until_s_ && is_in_doubt(now_s, out)) return;
  if (is_dirty_ || now_s >= wake_at_s_) {
    is_dirty_ = false;
    wake_at_s_ = now_s + settings_.times.heartbeat_s;
    admit(now_s, out);
    catch_up(now_s, out);
    drop_hosts(now_s);
    for (bool goes_on = true; goes_on;) {
      const Phase before = phase_;
      if (phase_ == Phase::gathering) {
        gather(now_s, out);
      } else if (phase_ == Phase::running) {
        watch(now_s, out);
      } else if (phase_ == Phase::stopping) {
        await_cleared(now_s, out);
      } else {
        linger(now_s);
      }
      goes_on = phase_ != before;
      if (goes_on) drop_hosts(now_s);
    }
  }
  announce_if_changed(now_s, out);
}

/// The leader before may have begun a round that this one never heard of, on hosts that it does not
/// know either: they are given the time in which their ranks have surely ended.
void Coordinator::catch_up(double now_s, Outputs& out) {
  if (newest_generation_ <= generation_) return;
  not_before_s_ = std::max(not_before_s_, now_s + settings_.times.lost_s);
  if (phase_ == Phase::running) {
    stop(StopCause::lost, "the agent that led before had begun another round", out);
  }
  if (generation_ < first_generation_) first_generation_ = newest_generation_ + 1;
  generation_ = newest_generation_;
  has_changed_ = true;
}

/// While this process was stopped, others were not silent: what they said lies unread.
void Coordinator::be_patient(double now_s) {
  const double gap_s = now_s - settled_s_;
  settled_s_ = now_s;
  if (gap_s <= kStoppedBeats * settings_.times.heartbeat_s) return;
  is_dirty_ = true;
  stood_still_s_ = gap_s;
  stood_still_until_s_ = now_s;
  for (auto& [id, host] : hosts_) host.heard_s = std::min(now_s, host.heard_s + gap_s);
}

/// An agent that differs from the job it came to lead must not refuse those who are in it. When
/// none of them is there any more, the job is an old one.
bool Coordinator::is_in_doubt(double now_s, Outputs& out) {
  bool may_have_owner = !is_listed_;
  bool has_owner = false;
  for (const auto& [id, host] : hosts_) {
    if (!host.record || id == own_id_) continue;
    if (!are_equal(host.record->agent.equal, equal_of_job_, settings_)) continue;
    may_have_owner = true;
    has_owner = has_owner || host.record->beat > host.first_beat;
  }
  if (has_owner) {
    own_refusal_ = mismatch_of(own_->agent, name_of_job_, equal_of_job_, settings_);
    return true;
  }
  wake_at_s_ = now_s + settings_.times.heartbeat_s;
  wake_by(*doubts_until_s_);
  if (may_have_owner && now_s < *doubts_until_s_) return true;
  doubts_until_s_.reset();
  is_dirty_ = true;
  begin_anew(now_s, out);
  return false;
}

void Coordinator::admit(double now_s, Outputs& out) {
  for (auto& [id, host] : hosts_) {
    if (!host.record || host.is_admitted || host.is_refused) continue;
    admit(host, now_s, out);
  }
}

void Coordinator::admit(Host& host, double now_s, Outputs& out) {
  if (phase_ == Phase::ended) return refuse(host, verdict_->exit, {}, out);
  if (auto problem = mismatch_of(host.record->agent, own_->agent, settings_)) {
    return refuse(host, Exit::usage, std::move(*problem), out);
  }
  // A new leader hears those who have seats first: one of them may have this place.
  const bool has_heard_all = std::all_of(hosts_.begin(), hosts_.end(), [](const auto& item) {
    return item.second.record || item.second.is_gone || !item.second.is_seated;
  });
  if (!has_heard_all) return wake_by(now_s + settings_.times.heartbeat_s);
  const auto holder = holder_of_place(host);
  if (!holder) {
    host.is_admitted = true;
    return;
  }
  // It may be dead, and the newcomer its successor: only a sign of life from now on decides.
  const Host& before = hosts_.at(holder->id);
  const std::uint64_t beat = before.record ? before.record->beat : 0;
  const bool is_alive =
      holder->id == own_id_ || (host.contested_id == holder->id && beat > host.contested_beat);
  const bool is_leaving = before.record && before.record->leaving;
  if (is_alive && !before.is_gone && !is_leaving) {
    return refuse(host, Exit::usage, duplicate_of(host.record->agent, *holder), out);
  }
  if (host.contested_id != holder->id) {
    host.contested_id = holder->id;
    host.contested_beat = beat;
  }
  wake_by(now_s + kLookAgain * settings_.times.heartbeat_s);
}

/// Also one that this leader has never heard of, but has a seat from the leader before: it may only
/// be standing still.
std::optional<Agent> Coordinator::holder_of_place(const Host& host) const {
  const auto is_holder = [&](const Agent& other) {
    return other.id != host.record->agent.id && hosts_.at(other.id).is_admitted &&
           claim_one_place(host.record->agent, other, settings_);
  };
  for (const auto& [id, other] : hosts_) {
    if (other.record && is_holder(other.record->agent)) return other.record->agent;
  }
  for (const Seat& seat : seats_) {
    const auto other = hosts_.find(seat.agent.id);
    if (other == hosts_.end() || other->second.record || !other->second.is_seated) continue;
    if (is_holder(seat.agent)) return seat.agent;
  }
  return std::nullopt;
}

void Coordinator::refuse(Host& host, Exit exit, Problem problem, Outputs& out) {
  host.is_refused = true;
  if (!problem.code.empty()) out.push_back(Note{"refused " + host.name + ": " + problem.what});
  refused_.push_back({host.record->agent.id, exit, std::move(problem)});
  if (refused_.size() > kMostListed) refused_.erase(refused_.begin());
  has_changed_ = true;
}

bool Coordinator::is_live_round() const {
  return phase_ == Phase::running || phase_ == Phase::stopping;
}

bool Coordinator::is_fresh(const Host& host, double now_s) const {
  return !host.is_gone && now_s - host.heard_s < kFreshBeats * settings_.times.heartbeat_s;
}

bool Coordinator::is_silent(const Host& host, double now_s, double limit_s) {
  if (std::min(now_s, hears_until_s_) - host.heard_s >= limit_s) return true;
  wake_by(std::max(host.heard_s + limit_s, now_s + kLookAgain * settings_.times.heartbeat_s));
  return false;
}

void Coordinator::drop_hosts(double now_s) {
  for (auto next = hosts_.begin(); next != hosts_.end();) {
    const auto current = next++;
    const auto& [id, host] = *current;
    if (id == own_id_ || (is_live_round() && host.is_seated)) continue;
    if (!host.is_gone && !is_silent(host, now_s, settings_.times.lost_s)) continue;
    const bool has_begun = generation_ >= first_generation_ && phase_ != Phase::ended;
    if (has_begun && host.is_admitted) {
      if (host.record) holds_.host_has_gone(host.record->agent, now_s);
      if (host.is_seated && lost_.size() < kMostListed) lost_.push_back(host.name);
    }
    const auto is_it = [&](const Refusal& refusal) { return refusal.id == current->first; };
    refused_.erase(std::remove_if(refused_.begin(), refused_.end(), is_it), refused_.end());
    hosts_.erase(current);
    has_new_text_ = true;
  }
}

std::shared_ptr<const JobState> Coordinator::state(double now_s) {
  auto state = std::make_shared<JobState>();
  version_ = std::max(version_, newest_version_) + 1;
  state->run_id = settings_.run_id;
  state->leader = own_id_;
  state->leader_name = name_of(own_->agent);
  state->version = version_;
  state->phase = phase_;
  state->generation = generation_;
  state->first_generation = first_generation_;
  state->restart_count = restart_count_;
  state->max_restarts = settings_.max_restarts;
  if (is_live_round()) state->seats = seats_;
  state->equal = own_->agent.equal;
  state->cause = cause_;
  state->because = because_;
  state->waiting_for = waiting_for_;
  state->last_end = last_end_;
  state->lost = lost_;
  state->refused = refused_;
  state->strikes = holds_.to_strikes(now_s);
  state->best_step = best_step_;
  state->rounds_at_best = rounds_at_best_;
  state->verdict = verdict_;
  return state;
}

void Coordinator::announce_if_changed(double now_s, Outputs& out) {
  if (!has_changed_ && !has_new_text_) return;
  const double pause_s = settings_.times.heartbeat_s * (hosts_.size() < kManyHosts ? 0.4 : 4);
  if (!has_changed_ && now_s < announced_s_ + pause_s) return wake_by(announced_s_ + pause_s);
  has_changed_ = has_new_text_ = false;
  announced_s_ = now_s;
  out.push_back(Announce{state(now_s)});
}

}  // namespace lockstep::rendezvous
