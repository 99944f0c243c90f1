// What goes wrong in a simulated job, and when.
#include <algorithm>

#include "lockstep/rendezvous/simulated_job_testing.h"

namespace lockstep::rendezvous::testing {

void SimulatedJob::draw_setup(const SimulationOptions& options) {
  const int hosts =
      options.least_hosts + simulation_.below(options.most_hosts - options.least_hosts + 1);
  setup_.is_etcd = simulation_.chance(0.5);
  const bool is_elastic = simulation_.chance(0.6);
  setup_.late_hosts = is_elastic && simulation_.chance(0.4) ? std::max(1, hosts / 4) : 0;
  setup_.hosts = hosts - setup_.late_hosts;
  NodeSettings& settings = setup_.settings;
  settings.run_id = "job";
  setup_.has_node_ranks = simulation_.chance(0.3);
  setup_.has_twin = !setup_.has_node_ranks && simulation_.chance(0.2);
  settings.max_nodes = is_elastic && simulation_.chance(0.5) ? hosts : setup_.hosts;
  if (setup_.has_twin) ++settings.max_nodes;
  settings.min_nodes = is_elastic ? 1 + simulation_.below(settings.max_nodes) : settings.max_nodes;
  settings.max_restarts = simulation_.below(8);
  settings.join_timeout_s = 40;
  settings.last_call_s = 4;
  settings.ends_with_leader = !setup_.is_etcd;
  settings.ours = simulation_.chance(0.5);
  settings.times = options.times;
  setup_.work_s = simulation_.uniform(8, 50);
}

void SimulatedJob::draw_faults() {
  const int faults = simulation_.chance(0.1) ? 0 : 1 + simulation_.below(8);
  const double until_s = simulation_.uniform(5, 50);
  for (int i = 0; i < faults; ++i) {
    const double time_s = simulation_.uniform(0, until_s);
    quiet_from_s_ = std::max(quiet_from_s_, time_s);
    simulation_.at(time_s, [this, time_s] { draw_fault(time_s); });
  }
}

void SimulatedJob::draw_fault(double /*time_s*/) {
  const int index = simulation_.below(static_cast<int>(hosts_.size()));
  const int agent = agent_of(index);
  const double seconds =
      simulation_.chance(0.5) ? simulation_.uniform(0.2, 3) : simulation_.uniform(2, 15);
  static constexpr std::array<const char*, 16> kKinds{
      "kill agent",    "kill host",       "stop agent",  "freeze host",
      "cut off",       "cut off one way", "split",       "cut service",
      "ask to stop",   "fail ranks",      "flap",        "two at once",
      "other version", "second launcher", "start again", "service forgets"};
  const int kind = simulation_.below(static_cast<int>(kKinds.size()));
  ++result_.faults[kKinds.at(static_cast<std::size_t>(kind))];
  log(std::string("FAULT: ") + kKinds.at(static_cast<std::size_t>(kind)) + ", host" +
      std::to_string(index) + ", " + std::to_string(seconds) + " s");
  switch (kind) {
    case 0:
      kill_agent(agent);
      if (simulation_.chance(0.7)) restart_host(index, seconds);
      break;
    case 1:
      kill_host(index);
      if (simulation_.chance(0.7)) restart_host(index, seconds + 4);  // no machine starts sooner
      break;
    case 2:
      return stop_agent(agent, seconds);
    case 3:
      return freeze_host(index, seconds);
    case 4:
      return cut_off(index, true, true, seconds);
    case 5: {
      const bool mute = simulation_.chance(0.5);
      return cut_off(index, mute, !mute, seconds);
    }
    case 6:
      return split(seconds);
    case 7:
      return cut_off(static_cast<int>(hosts_.size()), true, true, seconds);
    case 8:
      return ask_to_stop(agent);
    case 9:
      if (agent >= 0) fail_ranks(agent, false);
      break;
    case 10:
      return flap(index, 2 + simulation_.below(8));
    case 11:
      draw_fault(0);
      draw_fault(0);
      break;
    case 12:
      return start_agent(index, "2");
    case 14:
      return start_again();
    case 15:
      return forget();
    default:
      if (setup_.has_node_ranks) start_agent(index);
  }
}

/// As a user does who kills the launcher that leads and starts all anew; those of the other hosts
/// may still be there.
void SimulatedJob::start_again() {
  kill_agent(agent_of(0));
  for (int index = 0; index < static_cast<int>(hosts_.size()); ++index) {
    const double delay_s = simulation_.uniform(0.05, 1.5);
    touch(index, simulation_.now_s() + delay_s);
    simulation_.after(delay_s, [this, index] { start_agent(index); });
  }
}

/// What the service kept is lost, as when etcd starts with an empty folder.
void SimulatedJob::forget() {
  touch(static_cast<int>(hosts_.size()), simulation_.now_s());
  board_->forget();
}

int SimulatedJob::agent_of(int index) const {
  for (std::size_t agent = processes_.size(); agent-- > 0;) {
    if (processes_[agent]->host == index && processes_[agent]->is_alive) {
      return static_cast<int>(agent);
    }
  }
  return -1;
}

/// Until when what is said of a host may be the fault's doing.
void SimulatedJob::touch(int index, double until_s) {
  quiet_from_s_ = std::max(quiet_from_s_, until_s);
  if (index == static_cast<int>(hosts_.size())) {
    service_touched_s_ = std::max(service_touched_s_, until_s);
  } else {
    host(index).touched_s = std::max(host(index).touched_s, until_s);
  }
}

void SimulatedJob::kill_agent(int agent) {
  if (agent < 0) return;
  Process& own = process(agent);
  touch(own.host, simulation_.now_s());
  own.is_alive = false;
  own.inbox.clear();
  board_->die(agent);
  if (!own.ranks.are_live) return;
  RoundEnd end;
  end.kind = RoundEnd::Kind::failed;
  on_host(own.host, simulation_.uniform(0, 0.5),
          [this, agent, token = own.ranks.token, end] { end_ranks(agent, token, end); });
}

void SimulatedJob::kill_host(int index) {
  touch(index, simulation_.now_s());
  Host& one = host(index);
  if (!one.is_up) return;
  one.is_up = false;
  one.is_frozen = false;
  one.waiting.clear();
  network_->set_mute(index, true);
  network_->set_deaf(index, true);
  for (std::size_t agent = 0; agent < processes_.size(); ++agent) {
    Process& own = *processes_[agent];
    if (own.host != index) continue;
    end_ranks(static_cast<int>(agent), own.ranks.token,
              {RoundEnd::Kind::failed, {}, {}, false, -1});
    if (std::exchange(own.is_alive, false)) board_->die(static_cast<int>(agent));
    own.inbox.clear();
  }
}

void SimulatedJob::restart_host(int index, double delay_s) {
  touch(index, simulation_.now_s() + delay_s);
  simulation_.after(delay_s, [this, index] {
    Host& one = host(index);
    if (!one.is_up) {
      one.is_up = true;
      network_->set_mute(index, false);
      network_->set_deaf(index, false);
    }
    if (agent_of(index) < 0) start_agent(index);
  });
}

void SimulatedJob::stop_agent(int agent, double seconds) {
  if (agent < 0) return;
  Process& own = process(agent);
  touch(own.host, simulation_.now_s() + seconds);
  own.is_stopped = true;
  simulation_.after(seconds, [this, agent] {
    process(agent).is_stopped = false;
    if (!host(process(agent).host).is_frozen) resume(agent);
  });
}

/// News that came meanwhile and the clock are seen in any order.
void SimulatedJob::resume(int agent) {
  log(name(agent) + " goes on");
  Process& own = process(agent);
  if (simulation_.chance(0.5)) run_as(agent, [this, agent] { tell(agent, TimePassed{}); });
  while (own.is_alive && !own.inbox.empty()) {
    const auto action = std::move(own.inbox.front());
    own.inbox.pop_front();
    action();
  }
  run_as(agent, [this, agent] { tell(agent, TimePassed{}); });
}

void SimulatedJob::freeze_host(int index, double seconds) {
  Host& one = host(index);
  touch(index, simulation_.now_s() + seconds);
  if (!one.is_up || one.is_frozen) return;
  one.is_frozen = true;
  network_->set_mute(index, true);
  network_->set_deaf(index, true);
  simulation_.after(seconds, [this, index] {
    Host& same = host(index);
    if (!same.is_up || !same.is_frozen) return;
    same.is_frozen = false;
    network_->set_mute(index, false);
    network_->set_deaf(index, false);
    for (std::size_t agent = 0; agent < processes_.size(); ++agent) {
      const Process& own = *processes_[agent];
      const bool is_late = local_s(index) >= own.guarded_until_s;
      if (own.host != index || !own.ranks.are_live || !is_late) continue;
      RoundEnd end;  // the guardian's timer is the first that runs
      end.kind = RoundEnd::Kind::interrupted;
      end_ranks(static_cast<int>(agent), own.ranks.token, end);
    }
    const auto waiting = std::exchange(same.waiting, {});
    for (const auto& action : waiting) action();
    for (std::size_t agent = 0; agent < processes_.size(); ++agent) {
      const Process& own = *processes_[agent];
      if (own.host != index || !own.is_alive) continue;
      if (own.ranks.are_live) check_alone(static_cast<int>(agent));
      if (!own.is_stopped) resume(static_cast<int>(agent));
    }
  });
}

void SimulatedJob::cut_off(int index, bool mute, bool deaf, double seconds) {
  touch(index, simulation_.now_s() + seconds);
  if (mute) network_->set_mute(index, true);
  if (deaf) network_->set_deaf(index, true);
  simulation_.after(seconds, [this, index] {
    const bool is_service = index == static_cast<int>(hosts_.size());
    if (!is_service && (!host(index).is_up || host(index).is_frozen)) return;
    network_->set_mute(index, false);
    network_->set_deaf(index, false);
  });
}

void SimulatedJob::split(double seconds) {
  const int endpoints = static_cast<int>(hosts_.size()) + 1;
  for (int index = 0; index < endpoints; ++index) {
    network_->set_island(index, simulation_.below(2));
    touch(index, simulation_.now_s() + seconds);
  }
  simulation_.after(seconds, [this, endpoints] {
    for (int index = 0; index < endpoints; ++index) network_->set_island(index, 0);
  });
}

/// The launcher passes the signal on to its ranks at once.
void SimulatedJob::ask_to_stop(int agent) {
  if (agent < 0) return;
  Process& own = process(agent);
  own.is_asked = true;
  touch(own.host, simulation_.now_s());
  run_as(agent, [this, agent] {
    tell(agent, StopAsked{});
    Process& same = process(agent);
    if (!same.ranks.are_live) return;
    same.ranks.are_told = true;
    RoundEnd end;
    end.kind = RoundEnd::Kind::stopped_on_request;
    end.saved = setup_.settings.ours;
    on_host(same.host, simulation_.uniform(0.05, 2),
            [this, agent, token = same.ranks.token, end] { end_ranks(agent, token, end); });
  });
}

void SimulatedJob::flap(int index, int times) {
  if (times == 0) return;
  kill_agent(agent_of(index));
  restart_host(index, simulation_.uniform(0.2, 4));
  const double next_s = simulation_.uniform(1, 8);
  touch(index, simulation_.now_s() + next_s);
  simulation_.after(next_s, [this, index, times] { flap(index, times - 1); });
}

}  // namespace lockstep::rendezvous::testing
