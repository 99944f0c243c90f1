#include "lockstep/launch/hosts_session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/socket_address.h"
#include "lockstep/launch/equal_environment.h"
#include "lockstep/launch/name_patience.h"
#include "lockstep/rendezvous/board_session.h"
#include "lockstep/rendezvous/etcd_board.h"
#include "lockstep/rendezvous/job_secret.h"
#include "lockstep/rendezvous/static_session.h"
#include "lockstep/rendezvous/tcp_board.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

/// What the kernel would send from to reach `address`; nothing is sent. Empty = no way there.
std::string source_towards(const SocketAddress& address) {
  const Fd socket(::socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), address.get(), address.length) != 0) return "";
  SocketAddress own;
  own.length = sizeof own.storage;
  auto* const raw = reinterpret_cast<sockaddr*>(&own.storage);
  if (::getsockname(socket.get(), raw, &own.length) != 0) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = raw->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(raw)->sin_addr)
                          : &reinterpret_cast<sockaddr_in6*>(raw)->sin6_addr;
  return ::inet_ntop(raw->sa_family, bytes, text.data(), text.size()) == nullptr ? "" : text.data();
}

/// Of this host, on the way to where the hosts meet; "" when none leads there. A server of etcd
/// whose name is not known any more must not keep the others from serving.
/// \throws EnvironmentFault when no name is known.
std::string own_address(const LaunchOptions& options, const Endpoint& meeting) {
  std::vector<Endpoint> places = options.more_endpoints;
  places.insert(places.begin(), meeting);
  for (std::size_t i = 0; i < places.size(); ++i) {
    try {
      for (const SocketAddress& address : resolve(places[i].host, std::max(1, places[i].port))) {
        std::string own = source_towards(address);
        if (!own.empty()) return own;
      }
    } catch (const EnvironmentFault&) {
      if (i + 1 == places.size()) throw;
    }
  }
  return "";
}

/// Free a moment ago: the store of a round is opened there when this host comes first.
int free_port(const std::string& address) { return listen_on(address, 0).port; }

constexpr double kLongestSeconds = 1e9;  // "inf" and the like overflow what they are counted in

double seconds_of(const LaunchOptions& options, const char* key, double otherwise) {
  const auto found = options.rdzv_conf.find(key);
  if (found == options.rdzv_conf.end()) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(found->second.c_str(), &end);
  const bool is_number = end != found->second.c_str() && *end == '\0';
  if (is_number && seconds >= 0 && seconds <= kLongestSeconds) return seconds;
  throw UsageError(
      {{"LS-1013", "--rdzv-conf",
        std::string(key) + " is \"" + found->second + "\", not a number of seconds from 0 to 1e9",
        "write " + std::string(key) + "=60"}});
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

rendezvous::NodeSettings rules(const AgentSettings& settings) {
  const LaunchOptions& options = settings.options;
  rendezvous::NodeSettings rules;
  rules.run_id = settings.run_id;
  rules.min_nodes = options.nnodes.least;
  rules.max_nodes = options.nnodes.most;
  rules.max_restarts = options.max_restarts;
  rules.join_timeout_s = seconds_of(options, "join_timeout", rules.join_timeout_s);
  if (options.rdzv_backend != RdzvBackend::c10d) {
    rules.join_timeout_s = seconds_of(options, "timeout", rules.join_timeout_s);
  }
  rules.last_call_s = seconds_of(options, "last_call_timeout", rules.last_call_s);
  rules.ours = settings.program.is_ours;
  rules.may_differ = options.may_differ;
  return rules;
}

/// In Kubernetes a pod's name is known from its start on, which may be long after other pods'.
NamePatience patience_of(const AgentSettings& settings) {
  NamePatience patience;
  const auto join = milliseconds(rules(settings).join_timeout_s);
  patience.limit = settings.options.is_pod ? join : std::min(join, patience.limit);
  return patience;
}

/// Waits for names only: a way that is missing is told at once.
std::string known_address(const AgentSettings& settings, const Endpoint& meeting,
                          const OnWaiting& on_waiting) {
  std::string own = when_known([&] { return own_address(settings.options, meeting); },
                               patience_of(settings), on_waiting);
  if (!own.empty()) return own;
  throw EnvironmentFault({"LS-3002", address_text(meeting.host, meeting.port),
                          "no route leads there from this host",
                          "`ip route` lists the ways; --local-addr names this host's address"});
}

/// \throws UsageError, EnvironmentFault: LS-3061.
rendezvous::Secret secret_of(const LaunchOptions& options) {
  rendezvous::SecretSource source;
  source.named = options.job_secret;
  source.default_file = options.default_secret;
  return rendezvous::load_secret(source);
}

std::unique_ptr<rendezvous::Board> make_board(const AgentSettings& settings,
                                              const Endpoint& meeting,
                                              const rendezvous::NodeSettings& rules,
                                              const std::string& agent,
                                              const OnWaiting& on_waiting) {
  if (settings.options.rdzv_backend == RdzvBackend::etcd) {
    rendezvous::EtcdBoardOptions options;
    options.endpoints = {{meeting.host, meeting.port}};
    for (const Endpoint& more : settings.options.more_endpoints) {
      options.endpoints.push_back({more.host, more.port < 0 ? kEtcdPort : more.port});
    }
    const auto prefix = settings.options.rdzv_conf.find("etcd_prefix");
    const bool is_named = prefix != settings.options.rdzv_conf.end() && !prefix->second.empty();
    options.prefix = (is_named ? prefix->second : "lockstep") + "/" + settings.run_id;
    options.agent = agent;
    options.on_waiting = on_waiting;
    return std::make_unique<rendezvous::EtcdBoard>(std::move(options));
  }
  rendezvous::TcpBoardOptions options;
  options.endpoint = {meeting.host, meeting.port};
  options.agent = agent;
  options.key = rendezvous::job_key(secret_of(settings.options), settings.run_id);
  options.on_waiting = on_waiting;
  options.on_note = settings.say;
  options.times.join = milliseconds(rules.join_timeout_s);
  return std::make_unique<rendezvous::TcpBoard>(std::move(options));
}

std::unique_ptr<rendezvous::Session> make_static_session(const AgentSettings& settings,
                                                         const Endpoint& meeting,
                                                         rendezvous::Agent agent,
                                                         const OnWaiting& on_waiting) {
  rendezvous::StaticSettings fixed;
  if (agent.node_rank < 0) agent.node_rank = 0;
  fixed.agent = std::move(agent);
  fixed.job = rules(settings);
  fixed.endpoint = {meeting.host, meeting.port};
  fixed.workers_identical = settings.options.workers_identical;
  fixed.reach.join = milliseconds(fixed.job.join_timeout_s);
  fixed.on_waiting = on_waiting;
  fixed.on_note = settings.say;
  return std::make_unique<rendezvous::StaticSession>(std::move(fixed));
}

}  // namespace

Endpoint meeting_place(const LaunchOptions& options) {
  const bool is_fixed = options.rdzv_backend == RdzvBackend::fixed;
  if (is_fixed && !options.rdzv_endpoint) {
    return {options.master_addr, options.master_port.value_or(kStaticPort)};
  }
  if (!options.rdzv_endpoint) {
    throw UsageError({{"LS-1013", "--rdzv-endpoint", "several hosts need a place to meet",
                       "name one of the hosts on all of them: --rdzv-endpoint HOST:" +
                           std::to_string(kC10dPort)}});
  }
  Endpoint meeting = *options.rdzv_endpoint;
  if (meeting.port >= 0) return meeting;
  meeting.port = is_fixed                                    ? kStaticPort
                 : options.rdzv_backend == RdzvBackend::etcd ? kEtcdPort
                                                             : kC10dPort;
  return meeting;
}

std::unique_ptr<rendezvous::Session> make_hosts_session(AgentSettings& settings,
                                                        rendezvous::Agent agent,
                                                        const OnWaiting& on_waiting) {
  const Endpoint meeting = meeting_place(settings.options);
  if (agent.address.empty()) agent.address = known_address(settings, meeting, on_waiting);
  agent.equal = equal_environment(settings);
  if (settings.options.rdzv_backend == RdzvBackend::fixed) {
    return make_static_session(settings, meeting, std::move(agent), on_waiting);
  }
  settings.store_port = free_port(agent.address);
  agent.store_port = settings.store_port;
  const rendezvous::NodeSettings job = [&] {
    rendezvous::NodeSettings own = rules(settings);
    own.ends_with_leader = settings.options.rdzv_backend == RdzvBackend::c10d;
    return own;
  }();
  auto board = make_board(settings, meeting, job, agent.id, on_waiting);
  return std::make_unique<rendezvous::BoardSession>(std::move(board), std::move(agent), job,
                                                    settings.say);
}

}  // namespace lockstep::launch
