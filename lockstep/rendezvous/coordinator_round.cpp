// A round that runs, and what follows when it ends.
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/rendezvous/coordinator.h"
#include "lockstep/rendezvous/round_failures.h"

namespace lockstep::rendezvous {
namespace {

using Kind = RanksReport::Kind;
using Phase = JobState::Phase;

/// Silence after which an agent has surely given its ranks up itself; a little more than the fence.
constexpr double kAfterFenceS = 0.1;
constexpr double kStartS = 10;  // from a round's start to a rank's, at most
constexpr int kSameStepRounds = 3;
constexpr std::size_t kMostLosses = 8;

std::string append(const std::string& text, const std::string& more) {
  if (text.empty() || more.empty()) return text + more;
  return text + "; " + more;
}

/// A line names all hosts that were lost, up to a number. \param loss of one more.
void add_loss(std::string& losses, std::size_t count, const std::string& loss,
              const std::string& host) {
  if (losses.find(host) != std::string::npos) return;
  if (count < kMostLosses) losses = append(losses, loss);
  if (count == kMostLosses) losses += "; more hosts were lost";
}

}  // namespace

void Coordinator::watch(double now_s, Outputs& out) {
  if (const std::string leaver = leaver_who_ends_the_job(); !leaver.empty()) {
    return stop(StopCause::asked, leaver + " was asked to stop", out);
  }
  RoundView seen = view(now_s);
  if (seen.succeeded == seats_.size()) return end({Exit::ok, {}, {}, ""}, now_s, out);
  sort_by_cause(seen.failures);
  if (seen.has_cause) return stop(StopCause::failure, text_of(seen.failures.front()), out);
  if (!seen.lost.empty()) return stop(StopCause::lost, seen.lost, out);
  if (!seen.leaving.empty()) {
    return stop(StopCause::left, seen.leaving + " was asked to leave", out);
  }
  if (!seen.failures.empty() || !seen.stopped.empty()) {
    // The rank that the others lost, or the host that was asked to stop, shows in a moment.
    if (!suspects_since_s_) suspects_since_s_ = now_s;
    const double due_s = *suspects_since_s_ + settings_.times.suspect_s;
    if (now_s < due_s) return wake_by(due_s);
    if (seen.failures.empty()) {
      return stop(StopCause::asked, "the ranks of " + seen.stopped + " saved and left", out);
    }
    return stop(StopCause::failure, text_of(seen.failures.front()), out);
  }
  if (seen.succeeded > 0) return;
  if (const Host* host = newcomer(now_s)) stop(StopCause::joined, host->name + " joins", out);
}

Coordinator::RoundView Coordinator::view(double now_s) {
  RoundView seen;
  for (const auto& [id, host] : hosts_) {
    if (host.is_seated) view_seat(host, now_s, seen);
  }
  return seen;
}

void Coordinator::view_seat(const Host& host, double now_s, RoundView& seen) {
  const bool has_report = host.record && host.record->ranks.generation == generation_;
  const Kind kind = has_report ? host.record->ranks.kind : Kind::none;
  const auto set_first = [](std::string& text, const std::string& value) {
    if (text.empty()) text = value;
  };
  if (host.record && host.record->leaving) return set_first(seen.leaving, host.name);
  switch (kind) {
    case Kind::succeeded:
      ++seen.succeeded;
      return;
    case Kind::failing:
    case Kind::failed:
      for (const Failure& failure : host.record->ranks.failures) {
        seen.has_cause = seen.has_cause || !failure.consequence;
        seen.failures.push_back(failure);
      }
      return;
    case Kind::stopped:
      return set_first(seen.stopped, host.name);
    case Kind::fenced:
      return set_first(seen.lost, fence_text(host, now_s));
    case Kind::none:
    case Kind::running:
      break;
  }
  if (std::string loss = loss_of(host, now_s); !loss.empty()) {
    return set_first(seen.lost, loss);
  }
  if (kind == Kind::running) return;
  if (now_s >= round_began_s_ + kStartS) {
    return set_first(seen.lost,
                     host.name + " has not started its ranks within " + format_duration(kStartS));
  }
  wake_by(round_began_s_ + kStartS);
}

/// Why a host has killed its ranks: it did not hear the leader, whoever's doing that was.
std::string Coordinator::fence_text(const Host& host, double now_s) const {
  const NodeTimes& times = settings_.times;
  const bool stood_still = stood_still_s_ + times.heartbeat_s >= times.fence_s &&
                           now_s < stood_still_until_s_ + times.lost_s;
  if (!stood_still) return host.name + " was cut off from the leader and killed its ranks";
  return name_of(own_->agent) + ", which leads the job, stood still for " +
         format_duration(stood_still_s_) + ", and the other hosts killed their ranks meanwhile";
}

/// How a host was lost; empty = it was not.
std::string Coordinator::loss_of(const Host& host, double now_s) {
  if (host.is_gone) {
    return host.name + " is gone: its " + (host.is_proven ? "lease" : "connection") + " ended";
  }
  const NodeTimes& times = settings_.times;
  if (is_silent(host, now_s, std::min(times.fence_s + kAfterFenceS, times.lost_s))) {
    return host.name + " has been silent for " + format_duration(now_s - host.heard_s);
  }
  return "";
}

/// A host that there is room for.
const Coordinator::Host* Coordinator::newcomer(double now_s) {
  if (seats_.size() >= static_cast<std::size_t>(settings_.max_nodes)) return nullptr;
  for (const auto& [id, host] : hosts_) {
    if (host.is_seated || !is_ready(host, now_s)) continue;
    const double due_s = std::max(host.held_until_s, host.joined_s + settings_.times.settle_s);
    if (now_s >= due_s) return &host;
    wake_by(due_s);
  }
  return nullptr;
}

void Coordinator::stop(StopCause cause, const std::string& because, Outputs& out) {
  cause_ = cause;
  because_ = because;
  go_to(Phase::stopping);
  out.push_back(Note{"round " + std::to_string(generation_) + " ends: " + because});
}

void Coordinator::await_cleared(double now_s, Outputs& out) {
  if (cause_ != StopCause::asked) {
    if (const std::string leaver = leaver_who_ends_the_job(); !leaver.empty()) {
      cause_ = StopCause::asked;
      because_ = leaver + " was asked to stop";
      has_changed_ = true;
    }
  }
  bool are_all_cleared = now_s >= not_before_s_;
  if (!are_all_cleared) wake_by(not_before_s_);
  for (const auto& [id, host] : hosts_) {
    if (!is_cleared(id, host, now_s)) are_all_cleared = false;
  }
  if (are_all_cleared) conclude(now_s, out);
}

/// Whether no rank of the round, or of an older one, can run on that host.
bool Coordinator::is_cleared(const std::string& id, const Host& host, double now_s) {
  const bool may_have_ranks =
      host.is_seated || (host.record && (host.record->ranks.kind == Kind::running ||
                                         host.record->ranks.kind == Kind::failing));
  if (!may_have_ranks || (host.record && host.record->cleared >= generation_)) return true;
  if (id == own_id_) return false;
  if (host.is_gone && host.is_proven) return true;
  return is_silent(host, now_s, settings_.times.lost_s);
}

void Coordinator::conclude(double now_s, Outputs& out) {
  RoundResult result = result_of_round(now_s);
  if (result.succeeded == seats_.size()) return end({Exit::ok, {}, {}, ""}, now_s, out);
  if (cause_ == StopCause::asked) {
    result.verdict.first.reset();
    result.verdict.exit = result.saved == seats_.size() ? Exit::requeue : Exit::failed;
    result.verdict.because = because_;
    return end(std::move(result.verdict), now_s, out);
  }
  if (is_newcomer_ && result.away == seats_.size()) return begin_anew(now_s, out);
  if (cause_ == StopCause::joined && result.away == 0) {
    last_end_ = "round " + std::to_string(generation_) + " ended: " + because_;
    return gather_again(now_s);
  }
  const std::string why_not = why_no_restart(result.step);
  if (!why_not.empty()) {
    const bool says_enough = settings_.max_restarts == 0 && result.verdict.first;
    result.verdict.exit = exit_after(result.verdict.first, settings_.ours);
    if (!says_enough) result.verdict.because = append(result.verdict.because, why_not);
    return end(std::move(result.verdict), now_s, out);
  }
  ++restart_count_;
  const std::string because =
      result.verdict.first ? text_of(*result.verdict.first) : result.verdict.because;
  last_end_ = "round " + std::to_string(generation_) + " ended: " + because + "; restart " +
              std::to_string(restart_count_) + " of " + std::to_string(settings_.max_restarts);
  gather_again(now_s);
}

Coordinator::RoundResult Coordinator::result_of_round(double now_s) {
  RoundResult result;
  RoundView seen = view(now_s);
  std::string loss = cause_ == StopCause::lost || cause_ == StopCause::left ? because_ : "";
  for (const auto& [id, host] : hosts_) {
    if (!host.is_seated) continue;
    const bool has_report = host.record && host.record->ranks.generation == generation_;
    const bool has_succeeded = has_report && host.record->ranks.kind == Kind::succeeded;
    if (has_report) result.step = std::max(result.step, host.record->ranks.step);
    if (has_succeeded) ++result.succeeded;
    if (!host.record || host.record->cleared < generation_) {
      add_loss(loss, ++result.away, loss_of(host, now_s), host.name);
    } else if (!has_report || has_succeeded || host.record->ranks.kind == Kind::none ||
               host.record->ranks.saved) {
      ++result.saved;
    }
  }
  sort_by_cause(seen.failures);
  const bool has_first = seen.has_cause || (loss.empty() && !seen.failures.empty());
  if (has_first) {
    result.verdict.first = seen.failures.front();
    seen.failures.erase(seen.failures.begin());
  }
  if (seen.failures.size() > kMostFailures) seen.failures.resize(kMostFailures);
  result.verdict.consequences = std::move(seen.failures);
  result.verdict.because = std::move(loss);
  result.verdict.exit = Exit::failed;
  return result;
}

/// Why the ranks are not started again; empty = they are.
std::string Coordinator::why_no_restart(std::int64_t step) {
  const std::string used =
      std::to_string(restart_count_) + " of " + std::to_string(settings_.max_restarts) + " used";
  if (step > best_step_) {
    best_step_ = step;
    rounds_at_best_ = 0;
  }
  if (cause_ == StopCause::failure && step >= 0 && ++rounds_at_best_ >= kSameStepRounds) {
    return std::to_string(kSameStepRounds) +
           " rounds in a row failed without getting beyond step " + std::to_string(best_step_) +
           " (restarts: " + used + ")";
  }
  if (restart_count_ < settings_.max_restarts) return "";
  return "no restart is left (" + used + ")";
}

void Coordinator::gather_again(double now_s) {
  gathers_since_s_ = now_s;
  waiting_for_.clear();
  cause_ = StopCause::none;
  because_.clear();
  go_to(Phase::gathering);
}

/// The round was one of a job whose agents have all gone: nothing of it counts for this one.
void Coordinator::begin_anew(double now_s, Outputs& out) {
  out.push_back(Note{"an earlier job with this name has gone; its round " +
                     std::to_string(generation_) + " is over"});
  for (auto next = hosts_.begin(); next != hosts_.end();) {
    const auto current = next++;
    if (current->second.is_seated) hosts_.erase(current);
  }
  seats_.clear();
  is_newcomer_ = false;
  restart_count_ = 0;
  best_step_ = -1;
  rounds_at_best_ = 0;
  last_end_.clear();
  lost_.clear();
  first_generation_ = generation_ + 1;
  gather_again(now_s);
}

void Coordinator::end(Verdict verdict, double now_s, Outputs& out) {
  const std::string because = verdict.first             ? text_of(*verdict.first)
                              : verdict.because.empty() ? "all ranks succeeded"
                                                        : verdict.because;
  out.push_back(Note{"the job has ended: " + because});
  verdict_ = std::move(verdict);
  ended_s_ = now_s;
  go_to(Phase::ended);
}

/// The leader goes last, so that all others can read the verdict.
void Coordinator::linger(double now_s) {
  const double limit_s = ended_s_ + settings_.times.linger_s;
  may_finish_ = now_s >= limit_s;
  wake_by(limit_s);
  if (may_finish_) return;
  may_finish_ = std::all_of(hosts_.begin(), hosts_.end(), [&](const auto& item) {
    const auto& [id, host] = item;
    return id == own_id_ || host.is_gone || host.is_refused || !host.record ||
           host.record->finished;
  });
}

}  // namespace lockstep::rendezvous
