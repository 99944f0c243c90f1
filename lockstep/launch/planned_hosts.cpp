#include "lockstep/launch/planned_hosts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lockstep/launch/hosts_session.h"
#include "lockstep/launch/make_session.h"

namespace lockstep::launch {
namespace {

rendezvous::Round round_of(const AgentSettings& settings, const std::vector<PlannedHost>& hosts) {
  rendezvous::Round round = first_round(settings);
  round.seats.clear();
  int base_rank = 0;
  for (const PlannedHost& host : hosts) {
    rendezvous::Agent agent = own_agent(settings);
    agent.host = host.name;
    agent.ranks = host.ranks;
    round.seats.push_back({std::move(agent), std::exchange(base_rank, base_rank + host.ranks)});
  }
  if (hosts.size() < 2) return round;
  if (settings.options.rdzv_backend == RdzvBackend::fixed) {
    const Endpoint meeting = meeting_place(settings.options);
    round.master_addr = meeting.host;
    round.master_port = meeting.port;
  } else {
    round.master_addr = "(" + hosts.front().name + ")";
    round.master_port = 0;
  }
  return round;
}

}  // namespace

std::vector<PlannedHost> planned_hosts(const AgentSettings& settings) {
  const LaunchOptions& options = settings.options;
  const int own = std::clamp(options.node_rank.value_or(0), 0, options.nnodes.most - 1);
  std::vector<PlannedHost> hosts;
  for (int node = 0; node < options.nnodes.most; ++node) {
    hosts.push_back(
        {node == own ? settings.host : "node " + std::to_string(node), options.nproc_per_node});
  }
  return hosts;
}

std::vector<std::vector<RankStart>> plan_hosts(const AgentSettings& settings,
                                               const std::vector<PlannedHost>& hosts) {
  rendezvous::Round round = round_of(settings, hosts);
  std::vector<std::vector<RankStart>> plans;
  for (std::size_t seat = 0; seat < hosts.size(); ++seat) {
    AgentSettings there = settings;
    there.options.nproc_per_node = hosts[seat].ranks;
    round.own_seat = seat;
    plans.push_back(plan_round(there, round));
  }
  return plans;
}

}  // namespace lockstep::launch
