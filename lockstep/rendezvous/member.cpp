#include "lockstep/rendezvous/member.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/units.h"

namespace lockstep::rendezvous {
namespace {

using Kind = RanksReport::Kind;
using Phase = JobState::Phase;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Without a step for so many heartbeats this process was stopped, and news may lie unread.
constexpr double kStoppedBeats = 2;

constexpr double kBoardFirstS = 1;

/// A spare host may wait for days: it tells less often.
constexpr double kSpareNotes = 12;

std::string seconds(double time_s) { return format_duration(time_s); }

Kind kind_of(const RoundEnd& end, bool is_fenced) {
  switch (end.kind) {
    case RoundEnd::Kind::succeeded:
      return Kind::succeeded;
    case RoundEnd::Kind::failed:
      return is_fenced ? Kind::fenced : Kind::failed;
    case RoundEnd::Kind::stopped_on_request:
      return Kind::stopped;
    case RoundEnd::Kind::interrupted:
      return is_fenced ? Kind::fenced : Kind::stopped;
  }
  return Kind::failed;
}

}  // namespace

Member::Member(Agent agent, const NodeSettings& settings, double now_s)
    : settings_(settings),
      waits_since_s_(now_s),
      patient_from_s_(now_s),
      next_note_s_(now_s + settings.times.tell_s),
      last_step_s_(now_s) {
  own_.agent = std::move(agent);
  record_ = std::make_shared<const Record>(own_);
}

bool Member::has_live_ranks() const {
  return own_.ranks.kind == Kind::running || own_.ranks.kind == Kind::failing;
}

double Member::fence_at_s() const {
  if (!has_live_ranks() || !answered_s_) return kNever;
  return *answered_s_ + settings_.times.fence_s;
}

bool Member::is_answered(double now_s) const {
  return answered_s_ && now_s < *answered_s_ + settings_.times.fence_s;
}

void Member::heard(double published_s) {
  answered_s_ = std::max(answered_s_.value_or(published_s), published_s);
}

void Member::follow(const std::shared_ptr<const JobState>& state, Outputs& out) {
  if (state_ && state->version <= state_->version) return;
  if (const Refusal* refusal = state->refusal_of(own_.agent.id)) {
    if (refusal->problem.code.empty() && state->verdict) return end_as(*state->verdict);
    return end_with({refusal->exit, {}, {}, refusal->problem.what}, refusal->problem);
  }
  const bool is_other_job =
      state->run_id != settings_.run_id || (!state_ && state->phase == Phase::ended);
  if (is_other_job || state->generation < own_.generation) return;
  if (!state->last_end.empty() && (!state_ || state_->last_end != state->last_end)) {
    out.push_back(Note{state->last_end});
  }
  state_ = state;
  own_.version = state->version;
  if (own_.generation != state->generation) has_news_ = true;
  own_.generation = state->generation;
  if (state->phase == Phase::ended) end_as(*state->verdict);
}

/// Of the environment a verdict without a rank is of one thing: hosts that did not come.
void Member::end_as(const Verdict& verdict) {
  if (verdict.exit != Exit::environment || verdict.first) return end_with(verdict);
  end_with(verdict, Problem{"LS-3068", "--nnodes", verdict.because,
                            "start the launchers of the hosts that are missing, with the same "
                            "--rdzv-endpoint and --rdzv-id, or let fewer be enough: --nnodes "
                            "MIN:MAX"});
}

void Member::end_for(const char* code, const std::string& what, const std::string& fix) {
  const std::string where = state_ ? state_->leader_name : name_of(own_.agent);
  end_with({Exit::environment, {}, {}, what}, Problem{code, where, what, fix});
}

void Member::rank_failing(const Failure& failure) {
  if (own_.ranks.kind != Kind::running || told_ != Told::nothing) return;
  own_.ranks.kind = Kind::failing;
  own_.ranks.failures = {failure};
  has_news_ = true;
}

void Member::ranks_ended(const RoundEnd& end, double now_s) {
  if (!has_live_ranks()) return;
  is_fenced_ = is_fenced_ || now_s >= fence_at_s();  // the guardian was first
  const bool has_failed = own_.ranks.kind == Kind::failing && !is_fenced_;
  own_.ranks.kind = has_failed ? Kind::failed : kind_of(end, is_fenced_);
  own_.ranks.saved = end.saved;
  is_unsaved_ = !end.saved && end.kind != RoundEnd::Kind::succeeded;
  own_.ranks.step = end.step;
  if (end.kind == RoundEnd::Kind::failed) {
    own_.ranks.failures = end.consequences;
    own_.ranks.failures.insert(own_.ranks.failures.begin(), end.failure);
    if (own_.ranks.failures.size() > kMostFailures) own_.ranks.failures.resize(kMostFailures);
  }
  own_.cleared = std::max(own_.cleared, own_.ranks.generation);
  told_ = Told::nothing;
  is_fenced_ = false;
  has_news_ = true;
}

void Member::ask_to_stop() {
  if (own_.leaving) return;
  own_.leaving = true;
  has_news_ = true;
}

void Member::settle(double now_s, bool leads, bool may_finish, Outputs& out) {
  if (is_finished_) return;
  const NodeTimes& times = settings_.times;
  const double gap_s = now_s - std::exchange(last_step_s_, now_s);
  if (gap_s > kStoppedBeats * times.heartbeat_s) patient_from_s_ = now_s;
  wake_at_s_ = kNever;
  fence_if_due(now_s, gap_s, out);
  if (state_ && !finish_) obey(now_s, out);
  if (has_live_ranks()) waits_since_s_ = now_s;
  judge_leader(now_s, leads);
  leave_if_possible(now_s, leads);
  tell_what_is_waited_for(now_s, leads, out);
  finish_if_possible(leads, may_finish, out);
  publish_if_due(now_s, out);
}

void Member::fence_if_due(double now_s, double gap_s, Outputs& out) {
  if (!has_live_ranks()) return;
  if (now_s < fence_at_s()) return wake_by(fence_at_s());
  if (is_fenced_) return;
  is_fenced_ = true;
  const double fence_s = settings_.times.fence_s;
  const std::string why = gap_s + settings_.times.heartbeat_s >= fence_s
                              ? "this launcher stood still for " + seconds(gap_s)
                              : "nothing was heard of the other hosts for " + seconds(fence_s);
  stop_ranks(true, why + ": this host may no longer be part of the job", out);
}

bool Member::has_seat_to_take() const {
  return state_->phase == Phase::running && state_->generation > own_.ranks.generation &&
         state_->seat_of(own_.agent.id) != nullptr;
}

/// Whether this agent hears so late of its seat that others may count it as gone: who gave it the
/// seat had its word of long ago.
bool Member::is_seat_old(double now_s) const {
  const std::uint64_t beat = state_->seat_of(own_.agent.id)->beat;
  const auto said = std::find_if(recent_.begin(), recent_.end(),
                                 [&](const Said& one) { return one.beat == beat; });
  return said == recent_.end() || now_s >= said->at_s + settings_.times.fence_s;
}

void Member::obey(double now_s, Outputs& out) {
  if (has_live_ranks()) {
    const bool is_over = state_->generation != own_.ranks.generation;
    if (is_over) {
      is_fenced_ = true;
      stop_ranks(true, "the other hosts went on without this one", out);
    } else if (state_->phase != Phase::running) {
      stop_ranks(false, state_->because, out);
    }
    return;
  }
  if (has_seat_to_take() && !own_.leaving) {
    // The state can come before the first answer, and after a long silence before the next.
    if (!is_answered(now_s)) return;
    if (!is_seat_old(now_s)) return take_seat(now_s, out);
    own_.ranks = {state_->generation, Kind::fenced, {}, false, -1};
    has_news_ = true;
  }
  if (own_.ranks.generation < state_->generation) {
    own_.ranks = {state_->generation, Kind::none, {}, false, -1};
    has_news_ = true;
  }
  if (own_.cleared < state_->generation) {
    own_.cleared = state_->generation;
    has_news_ = true;
  }
}

void Member::take_seat(double now_s, Outputs& out) {
  const std::vector<Seat>& seats = state_->seats;
  Round round;
  round.run_id = state_->run_id;
  round.generation = state_->generation;
  round.restart_count = state_->restart_count;
  round.max_restarts = state_->max_restarts;
  round.seats = seats;
  round.own_seat = static_cast<std::size_t>(state_->seat_of(own_.agent.id) - seats.data());
  round.master_addr = seats.front().agent.address;
  round.master_port = seats.front().agent.store_port;
  own_.ranks = {state_->generation, Kind::running, {}, false, -1};
  told_ = Told::nothing;
  is_fenced_ = false;
  has_news_ = true;
  waits_since_s_ = now_s;
  wake_by(fence_at_s());
  out.push_back(StartRanks{std::move(round)});
}

void Member::stop_ranks(bool at_once, const std::string& because, Outputs& out) {
  const Told wanted = at_once ? Told::kill : Told::stop;
  if (told_ >= wanted) return;
  told_ = wanted;
  const StopCause cause = state_ ? state_->cause : StopCause::none;
  const bool in_peace =
      cause == StopCause::asked || cause == StopCause::left || cause == StopCause::joined;
  out.push_back(StopRanks{at_once, because, !at_once && in_peace});
}

bool Member::may_take_over(double now_s) const { return !state_ || is_answered(now_s); }

void Member::give_up_leader(double now_s) {
  const double silence_s = now_s - answered_s_.value_or(waits_since_s_);
  const std::string leader = state_ ? state_->leader_name : "nobody";
  end_for("LS-3064",
          leader + ", the host that leads the job, has not been heard for " + seconds(silence_s) +
              ": it has gone, or the network between is cut. The job cannot go on here",
          "see on that host why its launcher has ended or stands still; a job outlives its "
          "leader's host with --rdzv-backend etcd");
}

/// The job has ended and this agent slept through it, or what the board kept was lost: on its own
/// it must not begin anew.
void Member::board_has_forgotten() {
  end_for(
      "LS-3069",
      "nothing is known any more of the job where its hosts meet: it has ended while this host "
      "was away, or its keys were removed",
      "see how the job ended on the other hosts; where it did not, start it again on all hosts");
}

void Member::judge_leader(double now_s, bool leads) {
  if (leads || finish_) return;
  const double lost_at_s =
      std::max(answered_s_.value_or(kNever), patient_from_s_) + settings_.times.lost_s;
  if (settings_.ends_with_leader && answered_s_ && state_) {
    wake_by(lost_at_s);
    if (now_s >= lost_at_s) return give_up_leader(now_s);
  }
  if (has_live_ranks()) return;
  const double heard_s = std::max(answered_s_.value_or(waits_since_s_), waits_since_s_);
  // Why a board was never reached the board itself can tell: it gives up first.
  const double give_up_s = heard_s + settings_.join_timeout_s + (answered_s_ ? 0 : kBoardFirstS);
  wake_by(give_up_s);
  if (now_s < give_up_s) return;
  end_for("LS-3064",
          "no agent that leads the job was heard for " + seconds(settings_.join_timeout_s),
          "see that the launchers of the other hosts run, and that this host reaches the place "
          "where they meet");
}

/// An agent that was asked to stop goes when its ranks have ended and the others know.
void Member::leave_if_possible(double now_s, bool leads) {
  if (!own_.leaving || finish_ || has_live_ranks()) return;
  if (!left_s_) left_s_ = now_s;
  const double patience_s =
      std::max(answered_s_.value_or(-kNever), *left_s_) + settings_.times.lost_s;
  const bool is_alone = !answered_s_ || now_s >= patience_s;
  if (!is_alone) {
    wake_by(patience_s);
    const bool others_know = *answered_s_ >= *left_s_;
    const bool is_awaited = state_ &&
                            (state_->phase == Phase::running || state_->phase == Phase::stopping) &&
                            state_->seat_of(own_.agent.id) != nullptr;
    // The leader's host takes the board along: the job ends first.
    if (!others_know || is_awaited || (leads && settings_.ends_with_leader)) return;
  }
  end_with({is_unsaved_ ? Exit::failed : Exit::requeue, {}, {}, "this launcher was asked to stop"});
}

void Member::end_with(Verdict verdict, std::optional<Problem> refusal) {
  if (!finish_) finish_ = Finish{std::move(verdict), std::move(refusal)};
}

void Member::finish_if_possible(bool leads, bool may_finish, Outputs& out) {
  if (!finish_) return;
  if (has_live_ranks()) {
    if (!is_fenced_) stop_ranks(false, finish_->verdict.because, out);
    return;
  }
  if (!own_.finished) {
    own_.finished = true;
    has_news_ = true;
  }
  const bool others_read_it = state_ && state_->phase == Phase::ended;
  if (leads && others_read_it && !may_finish) return;
  is_finished_ = true;
}

void Member::tell_what_is_waited_for(double now_s, bool leads, Outputs& out) {
  const bool has_done_its_part =
      state_ && state_->phase != Phase::gathering && state_->seat_of(own_.agent.id) != nullptr;
  if (has_live_ranks() || finish_ || own_.leaving || has_done_its_part) {
    next_note_s_ = now_s + settings_.times.tell_s;
    return;
  }
  wake_by(next_note_s_);
  if (now_s < next_note_s_) return;
  const bool knows = state_ && (leads || is_answered(now_s));
  const bool is_spare = knows && state_->phase != Phase::gathering;
  next_note_s_ = now_s + settings_.times.tell_s * (is_spare ? kSpareNotes : 1);
  const std::string text = knows ? state_->waiting_for : "the agent that leads the job";
  if (text.empty()) return;
  out.push_back(Note{"waiting for " + seconds(now_s - waits_since_s_) + ": " + text});
}

void Member::publish_if_due(double now_s, Outputs& out) {
  const double due_s = published_s_ + settings_.times.heartbeat_s;
  if (has_news_ || now_s >= due_s) {
    ++own_.beat;
    record_ = std::make_shared<const Record>(own_);
    out.push_back(Publish{record_});
    published_s_ = now_s;
    has_news_ = false;
    recent_.push_back({own_.beat, now_s});
    while (recent_.front().at_s + settings_.times.fence_s < now_s) recent_.pop_front();
  }
  wake_by(published_s_ + settings_.times.heartbeat_s);
  if (is_finished_) out.push_back(*finish_);
}

}  // namespace lockstep::rendezvous
