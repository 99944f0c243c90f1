// How the agents and ranks of a simulated job behave; simulator_test.cpp has the tests.
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "lockstep/rendezvous/simulated_etcd_testing.h"
#include "lockstep/rendezvous/simulated_job_testing.h"
#include "lockstep/rendezvous/simulated_tcp_testing.h"

namespace lockstep::rendezvous::testing {
namespace {

constexpr double kMostVirtualS = 1200;

}  // namespace

SimulatedJob::SimulatedJob(std::uint64_t seed, const SimulationOptions& options)
    : seed_(seed),
      simulation_(seed),
      keeps_log_(options.keeps_log),
      checks_words_(options.checks_words),
      checks_bytes_(seed % 16 == 0) {
  draw_setup(options);
  const int hosts = setup_.hosts + setup_.late_hosts;
  network_ = std::make_unique<Network>(simulation_, hosts + 1);
  if (setup_.is_etcd) {
    board_ = std::make_unique<SimulatedEtcdBoard>(*network_, *this, hosts);
  } else {
    board_ = std::make_unique<SimulatedTcpBoard>(*network_, *this, options.keeps_marks);
  }
  remaining_s_ = setup_.work_s;
  for (int index = 0; index < hosts; ++index) {
    Host& one = hosts_.emplace_back();
    one.rate = simulation_.uniform(0.98, 1.02);
    one.offset_s = simulation_.uniform(0, 36000);
    const bool is_late = index >= setup_.hosts;
    const double comes_s = is_late ? simulation_.uniform(5, 40) : simulation_.uniform(0, 2);
    quiet_from_s_ = std::max(quiet_from_s_, comes_s + 0.1);
    simulation_.at(comes_s, [this, index] { start_agent(index); });
  }
  if (setup_.has_twin) simulation_.at(1, [this] { start_agent(0); });
  draw_faults();
}

SimulatedJob::~SimulatedJob() = default;

SimulationResult SimulatedJob::run() {
  while (result_.violation.empty() && !is_over()) {
    if (!simulation_.step()) break;
    if (simulation_.now_s() > kMostVirtualS) {
      violate("the job does not end");
    }
  }
  if (result_.violation.empty()) check_end();
  result_.seconds = simulation_.now_s();
  result_.events = simulation_.steps();
  return std::move(result_);
}

bool SimulatedJob::is_over() const {
  if (simulation_.now_s() < quiet_from_s_) return false;
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const auto& one) { return !one->is_alive; });
}

void SimulatedJob::start_agent(int index, const std::string& version) {
  if (!host(index).is_up) return;
  const int agent = static_cast<int>(processes_.size());
  auto fresh = std::make_unique<Process>();
  fresh->host = index;
  fresh->id = "agent" + std::to_string(agent);
  Agent description;
  description.id = fresh->id;
  description.host = "host" + std::to_string(index);
  description.machine = description.host;
  description.address = "10.0.0." + std::to_string(index);
  description.pid = 1000 + agent;
  description.equal["version"] = version;
  if (setup_.has_node_ranks) description.node_rank = index;
  fresh->is_stranger = version != "1";
  fresh->node = std::make_unique<Node>(description, setup_.settings, local_s(index));
  processes_.push_back(std::move(fresh));
  log(name(agent) + " starts");
  board_->come(agent);
  run_as(agent, [this, agent] { tell(agent, TimePassed{}); });
}

void SimulatedJob::run_as(int agent, std::function<void()> action) {
  Process& own = process(agent);
  if (!own.is_alive) return;
  if (host(own.host).is_frozen || own.is_stopped) {
    own.inbox.push_back(std::move(action));
    return;
  }
  action();
}

void SimulatedJob::tell(int agent, const NodeInput& input) {
  Process& own = process(agent);
  if (!own.is_alive) return;
  const std::vector<NodeOutput> outputs = own.node->step(local_s(own.host), input);
  own.guarded_until_s = own.node->fence_at_s();
  for (const NodeOutput& output : outputs) {
    std::visit([&](const auto& wanted) { act(agent, wanted); }, output);
  }
  if (own.is_alive) schedule_wake(agent);
}

void SimulatedJob::schedule_wake(int agent) {
  Process& own = process(agent);
  const std::uint64_t token = ++own.wake_token;
  const double due_s = std::max(true_s(own.host, own.node->wake_at_s()), simulation_.now_s());
  simulation_.at(due_s + simulation_.uniform(0, 0.003), [this, agent, token] {
    if (process(agent).wake_token != token) return;
    run_as(agent, [this, agent] { tell(agent, TimePassed{}); });
  });
}

void SimulatedJob::fail(int agent, const std::string& because) {
  act(agent, Finish{{Exit::environment, {}, {}, because}, {}});
}

void SimulatedJob::act(int agent, const Publish& publish) {
  if (checks_bytes_) check_bytes(*publish.record);
  board_->publish(agent, publish.record, local_s(process(agent).host));
}

void SimulatedJob::act(int agent, const Announce& announce) {
  if (keeps_log_) {
    log(name(agent) + " announces " + to_bytes(*announce.state).substr(0, 400));
  }
  if (checks_bytes_) check_bytes(*announce.state);
  check_announced(agent, *announce.state);
  board_->announce(agent, announce.state);
}

void SimulatedJob::act(int agent, const StartRanks& start) {
  Process& own = process(agent);
  log(name(agent) + " starts ranks of round " + std::to_string(start.round.generation));
  own.ranks.are_live = true;
  own.ranks.are_told = false;
  own.ranks.lineage = board_->lineage(agent);
  own.ranks.generation = start.round.generation;
  const std::uint64_t token = ++own.ranks.token;
  check_start(agent, start.round);
  guard(agent, token);
  const GroupKey key = key_of(agent);
  Group& group = groups_[key];
  if (++group.started == group.count && !group.is_broken) {
    group.complete_s = simulation_.now_s();
    simulation_.after(remaining_s_, [this, key] { complete(key); });
  }
}

void SimulatedJob::act(int agent, const StopRanks& stop) {
  Process& own = process(agent);
  log(name(agent) + (stop.at_once ? " kills" : " stops") + " its ranks: " + stop.because);
  own.ranks.are_told = true;
  if (stop.at_once) ++result_.seen["killed ranks"];
  RoundEnd end;
  end.kind = RoundEnd::Kind::interrupted;
  end.saved = setup_.settings.ours && !stop.at_once;
  const double delay_s = stop.at_once ? simulation_.uniform(0, 0.05) : simulation_.uniform(0.01, 2);
  on_host(own.host, delay_s,
          [this, agent, token = own.ranks.token, end] { end_ranks(agent, token, end); });
}

void SimulatedJob::act(int agent, const Finish& finish) {
  Process& own = process(agent);
  log(name(agent) + " finishes with " + std::to_string(static_cast<int>(finish.verdict.exit)) +
      " " + finish.verdict.because);
  own.finish = finish;
  check_refusal(agent, finish);
  ++result_.seen["exit " + std::to_string(static_cast<int>(finish.verdict.exit))];
  if (own.ranks.are_live) {  // when the board fails
    RoundEnd end;
    end.kind = RoundEnd::Kind::interrupted;
    end_ranks(agent, own.ranks.token, end);
  }
  own.is_alive = false;
  board_->leave(agent);
}

void SimulatedJob::act(int agent, const Note& note) { log(name(agent) + " says " + note.text); }

void SimulatedJob::on_host(int index, double delay_s, std::function<void()> action) {
  simulation_.after(delay_s, [this, index, action = std::move(action)] {
    if (!host(index).is_up) return;
    if (host(index).is_frozen) {
      host(index).waiting.push_back(action);
    } else {
      action();
    }
  });
}

/// The process that kills ranks when the agent itself cannot.
void SimulatedJob::guard(int agent, std::uint64_t token) {
  const Process& own = process(agent);
  const double due_s = true_s(own.host, own.guarded_until_s);
  on_host(own.host, std::max(0.0, due_s - simulation_.now_s()), [this, agent, token] {
    const Process& now = process(agent);
    if (now.ranks.token != token) return;
    if (local_s(now.host) < now.guarded_until_s - 1e-9) return guard(agent, token);
    log("the guardian of " + name(agent) + " kills its ranks");
    ++result_.seen["guardian killed"];
    RoundEnd end;
    end.kind = RoundEnd::Kind::failed;
    end.failure = failure_of(agent, SIGKILL, false);
    end_ranks(agent, token, end);
  });
}

void SimulatedJob::end_ranks(int agent, std::uint64_t token, const RoundEnd& end) {
  Process& own = process(agent);
  if (own.ranks.token != token || !own.ranks.are_live) return;
  own.ranks.are_live = false;
  ++own.ranks.token;
  if (end.kind == RoundEnd::Kind::succeeded) {
    Group& group = groups_[key_of(agent)];
    if (++group.succeeded == group.count) result_.has_succeeded = true;
  } else {
    break_group(agent);
  }
  RoundEnd told = end;
  told.step = static_cast<std::int64_t>(10 * (setup_.work_s - remaining_s_));
  run_as(agent, [this, agent, told] { tell(agent, RanksEnded{told}); });
}

SimulatedJob::GroupKey SimulatedJob::key_of(int agent) const {
  return {process(agent).ranks.lineage, process(agent).ranks.generation};
}

/// Ranks of one host are gone: those of others lose their peers, or wait for ever.
void SimulatedJob::break_group(int agent) {
  const GroupKey key = key_of(agent);
  Group& group = groups_[key];
  if (std::exchange(group.is_broken, true)) return;
  if (group.complete_s) {
    const double done_s = std::floor(simulation_.now_s() - *group.complete_s);
    remaining_s_ = std::max(0.1, remaining_s_ - done_s);
  }
  for (std::size_t other = 0; other < processes_.size(); ++other) {
    const int peer = static_cast<int>(other);
    Process& one = process(peer);
    if (peer == agent || !one.ranks.are_live || key_of(peer) != key) continue;
    if (simulation_.chance(0.5)) continue;
    on_host(one.host, simulation_.uniform(0.05, 3), [this, peer, token = one.ranks.token] {
      const Ranks& ranks = process(peer).ranks;
      if (ranks.token == token && !ranks.are_told) fail_ranks(peer, true);
    });
  }
}

void SimulatedJob::complete(const GroupKey& key) {
  const Group& group = groups_[key];
  if (group.is_broken) return;
  for (std::size_t other = 0; other < processes_.size(); ++other) {
    const int peer = static_cast<int>(other);
    Process& one = process(peer);
    if (!one.ranks.are_live || key_of(peer) != key) continue;
    on_host(one.host, simulation_.uniform(0, 0.5), [this, peer, token = one.ranks.token] {
      RoundEnd end;
      end.kind = RoundEnd::Kind::succeeded;
      end_ranks(peer, token, end);
    });
  }
}

Failure SimulatedJob::failure_of(int agent, int signal, bool is_consequence) {
  Failure failure;
  failure.host = "host" + std::to_string(process(agent).host);
  failure.pid = 5000 + agent;
  failure.signal = signal;
  failure.exit_code = signal == 0 ? 1 : 0;
  failure.seconds = simulation_.now_s();
  failure.consequence = is_consequence;
  failure.because = is_consequence ? "lost a peer" : "broke";
  return failure;
}

void SimulatedJob::fail_ranks(int agent, bool is_consequence) {
  Process& own = process(agent);
  if (!own.ranks.are_live) return;
  log("a rank of " + name(agent) + (is_consequence ? " loses a peer" : " fails"));
  RoundEnd end;
  end.kind = RoundEnd::Kind::failed;
  end.failure = failure_of(agent, 0, is_consequence);
  if (!is_consequence && !own.ranks.are_told && !own.is_asked && own.is_alive) {
    groups_[key_of(agent)].causes.emplace(end.failure.host, simulation_.now_s());
  }
  run_as(agent, [this, agent, failure = end.failure] { tell(agent, RankFailing{failure}); });
  break_group(agent);
  on_host(own.host, simulation_.uniform(0, 1),
          [this, agent, token = own.ranks.token, end] { end_ranks(agent, token, end); });
}

std::string SimulatedJob::name(int agent) const {
  return process(agent).id + " on host" + std::to_string(process(agent).host);
}

void SimulatedJob::log(const std::string& text) {
  if (!keeps_log_) return;
  char time[32];
  std::snprintf(time, sizeof time, "%9.3f  ", simulation_.now_s());
  result_.log.push_back(time + text);
}

void SimulatedJob::violate(const std::string& what) {
  if (!result_.violation.empty()) return;
  result_.violation = what;
  log("VIOLATION: " + what);
}

SimulationResult simulate(std::uint64_t seed, const SimulationOptions& options) {
  SimulationResult result = SimulatedJob(seed, options).run();
  if (result.violation.empty() || options.keeps_log) return result;
  SimulationOptions again = options;
  again.keeps_log = true;
  return SimulatedJob(seed, again).run();
}

}  // namespace lockstep::rendezvous::testing
