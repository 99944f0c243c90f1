#include "lockstep/rendezvous/static_session.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/error.h"
#include "lockstep/rendezvous/admission.h"
#include "lockstep/rendezvous/round_failures.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAnswerDeadline{30'000};
constexpr milliseconds kPause{50};        // between looks at who has come
constexpr milliseconds kSuspicion{500};   // when ranks lost a peer: for the cause to show
constexpr milliseconds kEndLimit{3'000};  // for others to learn how the job ended

milliseconds from_seconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

bool is_readable_within(int fd, milliseconds time) {
  pollfd ready{fd, POLLIN, 0};  // poll() ignores fd -1
  return ::poll(&ready, 1, static_cast<int>(time.count())) > 0;
}

Verdict stopped_before_start() {
  return {Exit::failed, {}, {}, "stopped on request before the ranks started"};
}

}  // namespace

StaticSession::StaticSession(StaticSettings settings)
    : settings_(std::move(settings)), node_(std::max(0, settings_.agent.node_rank)) {
  settings_.agent.node_rank = node_;
  settings_.agent = with_settings(settings_.agent, settings_.job);
  settings_.reach.join = from_seconds(settings_.job.join_timeout_s);
}

StaticSession::~StaticSession() = default;

void StaticSession::note(const std::string& text) const {
  if (settings_.on_note) settings_.on_note(text);
}

Record StaticSession::own_record() const {
  Record record;
  record.agent = settings_.agent;
  return record;
}

/// \returns false when it was asked to stop.
bool StaticSession::open(int stop_fd) {
  if (node_ >= settings_.job.max_nodes) {
    const auto problem = mismatch_of(settings_.agent, settings_.agent, settings_.job);
    if (problem) throw UsageError({*problem});
  }
  if (node_ == 0) {
    serve();
  } else if (!reach(settings_.endpoint, settings_.reach, settings_.on_waiting, stop_fd)) {
    return false;
  }
  store_ = std::make_unique<StaticStore>(settings_.endpoint, settings_.job.run_id, kAnswerDeadline);
  store_->count_in();
  claim_node();
  return true;
}

void StaticSession::serve() {
  const Endpoint& endpoint = settings_.endpoint;
  try {
    const BlockedSignals blocked;
    server_ = std::make_unique<store::Server>(endpoint.host, endpoint.port);
  } catch (const EnvironmentFault& fault) {
    if (fault.problems().front().code != "LS-3001") throw;
    // Who holds the port may be a second agent of this node.
    std::optional<Agent> holder;
    try {
      StaticStore store(endpoint, settings_.job.run_id, milliseconds(500));
      holder = store.members(1, 0).agents[0];
    } catch (const Error&) {
      throw fault;
    }
    if (holder) throw UsageError({duplicate_of(settings_.agent, *holder)});
    throw;
  }
  const auto addresses = resolve(endpoint.host, endpoint.port);
  if (!addresses.empty() && addresses[0].is_loopback() && settings_.job.max_nodes > 1) {
    note("the store is at the loopback address of this host (" + endpoint.text() +
         "): other hosts cannot connect; name the address by number");
  }
}

/// A node rank is one agent's. torchrun's agents do not ask, but their role shows.
void StaticSession::claim_node() {
  if (const auto holder = store_->claim(node_, settings_.agent)) {
    throw UsageError({duplicate_of(settings_.agent, *holder)});
  }
  const auto members = store_->members(settings_.job.max_nodes, node_);
  if (members.roles[static_cast<std::size_t>(node_)]) {
    throw UsageError({{"LS-3022", name_of(settings_.agent),
                       "node " + std::to_string(node_) + " already joined by an agent of torchrun",
                       "give each host its own --node-rank, from 0 up"}});
  }
}

std::variant<Round, Verdict> StaticSession::next(int stop_fd) {
  if (verdict_) return *verdict_;
  if (!store_ && !open(stop_fd)) return stopped_before_start();
  if (has_succeeded_) wait_for_all(stop_fd);
  if (!verdict_) return start_round(stop_fd);
  let_others_know();
  return *verdict_;
}

std::variant<Round, Verdict> StaticSession::start_round(int stop_fd) {
  store_->set_role(node_, {settings_.agent.role, settings_.agent.ranks});
  const auto members = gather(stop_fd);
  if (!members) {
    leaving();
    return stopped_before_start();
  }
  if (!watch_) watch_others(*members);
  watch_->begin_round(restarts_);
  has_succeeded_ = false;
  return round_of(*members);
}

bool StaticSession::has_all(const StaticStore::Members& members) const {
  const bool have_come = std::all_of(members.roles.begin(), members.roles.end(),
                                     [](const auto& role) { return role.has_value(); });
  return settings_.workers_identical || (have_come && (node_ == 0 || members.assigned));
}

/// Until all have come and node 0 has told their ranks; nothing when it was asked to stop.
std::optional<StaticStore::Members> StaticSession::gather(int stop_fd) {
  const auto start = Clock::now();
  auto tell_at = start + kTellWaitingEvery;
  while (true) {
    auto members = store_->members(settings_.job.max_nodes, node_);
    check_others(members);
    if (has_all(members)) {
      if (settings_.workers_identical) {
        members.roles.assign(members.roles.size(),
                             RoleInfo{settings_.agent.role, settings_.agent.ranks});
      } else if (node_ == 0) {
        std::vector<RoleInfo> roles;
        for (const auto& role : members.roles) roles.push_back(*role);
        store_->assign(roles);
      }
      return members;
    }
    const auto now = Clock::now();
    if (now >= start + settings_.reach.join) {
      throw EnvironmentFault({"LS-3068", settings_.endpoint.text(),
                              missing_text(members) + " within " +
                                  std::to_string(settings_.reach.join.count() / 1000) + " s",
                              "see whether the launchers of these hosts have started, and with "
                              "which --node-rank and --master-addr"});
    }
    if (settings_.on_waiting && now >= tell_at) {
      tell_at = now + kTellWaitingEvery;
      settings_.on_waiting(missing_text(members));
    }
    if (is_readable_within(stop_fd, kPause)) return std::nullopt;
  }
}

/// What must be equal on all hosts is compared with every agent of ours.
void StaticSession::check_others(const StaticStore::Members& members) const {
  for (const auto& agent : members.agents) {
    if (!agent) continue;
    const auto problem = mismatch_of(settings_.agent, *agent, settings_.job);
    if (problem) throw UsageError({*problem});
  }
}

std::string StaticSession::missing_text(const StaticStore::Members& members) const {
  std::string missing;
  std::string come;
  for (std::size_t node = 0; node < members.roles.size(); ++node) {
    const auto& agent = members.agents[node];
    std::string& list = members.roles[node] ? come : missing;
    list += (list.empty() ? "" : ", ") + std::to_string(node);
    if (members.roles[node] && agent) list += " (" + agent->host + ")";
  }
  if (missing.empty()) return "node 0 has not told who gets which ranks";
  return "node " + missing + " of " + std::to_string(members.roles.size()) +
         " has not come; there are: " + come;
}

Round StaticSession::round_of(const StaticStore::Members& members) const {
  Round round;
  round.run_id = settings_.job.run_id;
  round.generation = restarts_ + 1;
  round.restart_count = restarts_;
  round.max_restarts = settings_.job.max_restarts;
  round.own_seat = static_cast<std::size_t>(node_);
  round.master_addr = settings_.endpoint.host;
  round.master_port = settings_.endpoint.port;
  int begin = 0;
  for (std::size_t node = 0; node < members.roles.size(); ++node) {
    Agent agent;
    agent.host = "node " + std::to_string(node);
    if (members.agents[node]) agent = *members.agents[node];
    agent.node_rank = static_cast<int>(node);
    agent.role = members.roles[node]->role;
    agent.ranks = members.roles[node]->ranks;
    round.seats.push_back({agent, begin});
    begin += agent.ranks;
  }
  return round;
}

void StaticSession::watch_others(const StaticStore::Members& members) {
  our_agents_ =
      static_cast<int>(std::count_if(members.agents.begin(), members.agents.end(),
                                     [](const auto& agent) { return agent.has_value(); }));
  StaticWatchSettings watch;
  watch.endpoint = settings_.endpoint;
  watch.run_id = settings_.job.run_id;
  watch.node = node_;
  watch.agents = members.agents;
  watch.answer_limit = from_seconds(settings_.job.times.fence_s);
  watch.lost = from_seconds(settings_.job.times.lost_s);
  watch_ = std::make_unique<StaticWatch>(std::move(watch));
}

int StaticSession::interrupt_fd() const { return watch_ ? watch_->fd() : -1; }

std::string StaticSession::interrupt_reason() const {
  const auto cause = watch_ ? watch_->cause() : std::nullopt;
  return cause ? cause->because : "";
}

bool StaticSession::is_fenced() const { return watch_ && watch_->has_lost_store(); }

void StaticSession::leaving() {
  try {
    if (store_) store_->tell_leaving(own_record());
  } catch (const EnvironmentFault&) {  // then nobody can be told
  }
}

void StaticSession::failing(const Failure& failure) {
  if (failure.consequence) return;  // the cause is elsewhere; report() tells if nobody else does
  RoundEnd end;
  end.kind = RoundEnd::Kind::failed;
  end.failure = failure;
  (void)first_failure(end);
}

/// Whose failure stands for the round: of the host that told first.
StaticWatch::Cause StaticSession::first_failure(const RoundEnd& end) {
  Record record = own_record();
  record.generation = restarts_ + 1;
  record.ranks.generation = record.generation;
  record.ranks.kind = RanksReport::Kind::failed;
  record.ranks.failures = {end.failure};
  record.ranks.failures.insert(record.ranks.failures.end(), end.consequences.begin(),
                               end.consequences.end());
  StaticWatch::Cause cause{record, false, false, {}};
  try {
    const Record first = store_->tell_failed(restarts_, record);
    if (first.agent.id != record.agent.id) cause.failed = first;
  } catch (const EnvironmentFault&) {  // the store went with its host: what failed here is known
  }
  return cause;
}

/// Why the round is over.
StaticWatch::Cause StaticSession::cause_of(const RoundEnd& end) {
  if (end.kind == RoundEnd::Kind::failed) {
    if (!end.failure.consequence) return first_failure(end);
    // Somebody else may know why.
    (void)is_readable_within(watch_->fd(), kSuspicion);
    const auto told = watch_->cause();
    return told ? *told : first_failure(end);
  }
  if (end.kind == RoundEnd::Kind::stopped_on_request) {
    return {{}, true, false, name_of(settings_.agent) + " was asked to stop"};
  }
  return watch_->cause().value_or(StaticWatch::Cause{{}, false, false, "the round was ended"});
}

void StaticSession::report(const RoundEnd& end) {
  if (end.kind == RoundEnd::Kind::succeeded) {
    has_succeeded_ = true;
  } else {
    settle(end, cause_of(end));
  }
}

/// A verdict, or one more restart.
void StaticSession::settle(const RoundEnd& end, const StaticWatch::Cause& cause) {
  Verdict verdict{Exit::failed, {}, {}, {}};
  if (cause.asked_to_stop) {
    if (end.kind == RoundEnd::Kind::stopped_on_request) leaving();
    verdict.exit = end.saved ? Exit::requeue : Exit::failed;
    verdict.because = cause.because;
  } else if (cause.failed && !cause.failed->ranks.failures.empty()) {
    const auto& failures = cause.failed->ranks.failures;
    verdict.first = failures.front();
    verdict.consequences.assign(failures.begin() + 1, failures.end());
    if (cause.failed->agent.id != settings_.agent.id && end.kind == RoundEnd::Kind::failed) {
      verdict.consequences.push_back(end.failure);
    }
    verdict.exit = exit_after(verdict.first, settings_.job.ours);
  } else {
    verdict.because = cause.because;
  }
  const bool is_hopeless = cause.asked_to_stop || cause.store_lost || verdict.exit == Exit::usage ||
                           verdict.exit == Exit::bad_data;  // it is still there the next time
  if (restarts_ >= settings_.job.max_restarts || is_hopeless) {
    verdict_ = std::move(verdict);
  } else {
    ++restarts_;
  }
}

/// Node 0 must serve the store until all have ended. Ends with a verdict, or, when ranks of another
/// host failed meanwhile, with one more restart.
void StaticSession::wait_for_all(int stop_fd) {
  const auto start = Clock::now();
  auto tell_at = start + kTellWaitingEvery;
  const bool are_all_ours = our_agents_ == settings_.job.max_nodes;
  verdict_ = Verdict{Exit::ok, {}, {}, {}};
  try {
    if (are_all_ours) {
      (void)store_->succeed(restarts_, 1);
    } else {
      store_->finish(settings_.job.max_nodes);
    }
    while (!all_have_ended()) {
      const auto now = Clock::now();
      if (now >= start + settings_.exit_barrier) {
        return note("not all hosts ended within " +
                    std::to_string(settings_.exit_barrier.count() / 1000) + " s");
      }
      if (settings_.on_waiting && now >= tell_at) {
        tell_at = now + kTellWaitingEvery;
        settings_.on_waiting("this host's ranks have ended; other hosts' have not yet");
      }
      const auto cause = watch_->cause();
      if (cause && are_all_ours) {
        if (cause->store_lost) return lost_while_waiting(cause->because);
        verdict_.reset();
        RoundEnd end;
        end.kind = RoundEnd::Kind::interrupted;
        return settle(end, *cause);
      }
      if (is_readable_within(stop_fd, kPause)) return leaving();
    }
  } catch (const EnvironmentFault& fault) {
    // An agent of torchrun's goes with its store as soon as it knows that all have ended, which may
    // be before others have looked; one of ours waits for them.
    if (are_all_ours) lost_while_waiting(fault.problems().front().what);
  }
}

/// This host's ranks have succeeded, but how the job ends can no longer be learnt.
void StaticSession::lost_while_waiting(const std::string& why) {
  verdict_ = Verdict{
      Exit::failed, {}, {}, why + "; this host's ranks had succeeded, others' may not have"};
}

bool StaticSession::all_have_ended() {
  if (our_agents_ != settings_.job.max_nodes) return store_->all_have_finished();
  return store_->succeed(restarts_, 0) >= settings_.job.max_nodes;
}

/// Node 0 serves the store until the others have read why the job ended.
void StaticSession::let_others_know() {
  try {
    if (!watch_ || watch_->has_lost_store()) return;
    (void)store_->know_end(1);
    const auto deadline = Clock::now() + kEndLimit;
    while (node_ == 0 && store_->know_end(0) < our_agents_ && Clock::now() < deadline) {
      (void)is_readable_within(-1, kPause);
    }
    watch_.reset();
  } catch (const EnvironmentFault&) {  // the others have gone
  }
}

}  // namespace lockstep::rendezvous
