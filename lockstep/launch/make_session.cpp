#include "lockstep/launch/make_session.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/base/random_hex.h"
#include "lockstep/launch/hosts_session.h"
#include "lockstep/launch/local_session.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

/// Equal for processes that share a kernel and a network.
std::string machine_id() {
  std::error_code unknown;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", unknown).string();
  return std::string(trim(read_small_file("/proc/sys/kernel/random/boot_id"))) + " " + network;
}

/// Where the ranks of one host meet: at what was named, else at a free port of loopback.
Endpoint store_of_one_host(const LaunchOptions& options) {
  if (options.standalone) return {"127.0.0.1", 0};
  const bool is_named = options.rdzv_endpoint && options.rdzv_backend != RdzvBackend::etcd;
  if (!is_named) return {options.master_addr, options.master_port.value_or(0)};
  return {options.rdzv_endpoint->host, std::max(0, options.rdzv_endpoint->port)};
}

std::unique_ptr<rendezvous::Session> make_local_session(const AgentSettings& settings) {
  const Endpoint store = store_of_one_host(settings.options);
  LocalSession::Settings local;
  local.agent = own_agent(settings);
  local.run_id = settings.run_id;
  local.max_restarts = settings.options.max_restarts;
  local.store_host = store.host;
  local.store_port = store.port;
  local.ours = settings.program.is_ours;
  return std::make_unique<LocalSession>(std::move(local));
}

}  // namespace

rendezvous::Agent own_agent(const AgentSettings& settings) {
  rendezvous::Agent agent;
  agent.id = random_hex(32);
  agent.host = settings.host;
  agent.machine = machine_id();
  agent.address = settings.options.local_addr;
  agent.pid = ::getpid();
  agent.node_rank = settings.options.node_rank.value_or(-1);
  agent.ranks = settings.options.nproc_per_node;
  agent.role = settings.options.role;
  return agent;
}

std::unique_ptr<rendezvous::Session> make_session(AgentSettings& settings,
                                                  const OnWaiting& on_waiting) {
  if (!settings.options.spans_hosts()) return make_local_session(settings);
  return make_hosts_session(settings, own_agent(settings), on_waiting);
}

rendezvous::Round first_round(const AgentSettings& settings) {
  const LaunchOptions& options = settings.options;
  const Endpoint store = store_of_one_host(options);
  rendezvous::Round round;
  round.run_id = settings.run_id;
  round.max_restarts = options.max_restarts;
  round.own_seat = static_cast<std::size_t>(options.node_rank.value_or(0));
  for (int node = 0; node < options.nnodes.most; ++node) {
    round.seats.push_back({own_agent(settings), node * options.nproc_per_node});
  }
  round.own_seat = std::min(round.own_seat, round.seats.size() - 1);
  round.master_addr = store.host;
  round.master_port = store.port;
  return round;
}

}  // namespace lockstep::launch
