// Launchers on several hosts, started over ssh and watched until all have ended.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/starters/agent_order.h"
#include "lockstep/starters/ssh.h"

namespace lockstep::starters {

/// A launcher on one host.
struct RemoteAgent {
  std::string host;
  AgentOrder order;
};

struct SshJobOptions {
  SshOptions ssh;
  std::string program;                       // lockstep on this host: a path
  std::vector<RemoteAgent> agents;           // by node rank
  std::vector<std::string> own_environment;  // of the ssh clients: "KEY=value"
  bool always_ssh = false;    // otherwise a host that is this machine is started without ssh
  bool ends_together = true;  // one failed host ends all; false = the others may go on without it
  std::chrono::milliseconds follow_time{
      std::chrono::seconds(5)};  // for others to end by themselves
  std::chrono::milliseconds stop_budget{std::chrono::seconds(30)};  // from a request to the kill
  /// Offered each line of a host's standard output: one that is taken is not shown, the others go
  /// to standard error. Unset = standard output is for people.
  std::function<bool(const std::string& text)> take_out;
  std::uint64_t open_files = 0;  // soft limit of the ssh clients; 0 = as this process
  /// Each line of a host, on the thread that calls run_over_ssh(). Unset = to the same stream of
  /// this process as "[HOST] text".
  std::function<void(const std::string& host, bool is_stderr, const std::string& text)> on_line;
};

/// How the launcher of one host ended.
struct AgentEnd {
  std::string host;
  int exit_code = 0;
  int signal = 0;            // that killed the ssh client
  double seconds = 0;        // since the start, monotonic
  bool ended_by_us = false;  // it had been asked to stop
  std::string last_stderr;   // its last lines
};

struct SshJobResult {
  Exit exit = Exit::ok;                  // by the rule of docs/cli.md
  std::optional<Problem> first_failure;  // of a host that could not be reached or failed first
  std::vector<AgentEnd> ends;            // in order of ending
  std::vector<Problem> lost;             // of their lines; told when it happened
};

/// Starts a launcher on every host, hands each its order, prints their lines with the host in
/// front, and returns when all have ended. SIGTERM, SIGINT, SIGHUP and SIGQUIT ask all to stop; a
/// second one, or the end of this process, kills them: each is killed when its standard input ends.
/// SIGUSR1 and SIGUSR2 are sent on to each launcher.
/// \throws UsageError (a host that is none), EnvironmentFault (no ssh).
[[nodiscard]] SshJobResult run_over_ssh(const SshJobOptions& options);

/// Whether `host` is an address of this machine: one that can be bound here, names resolved.
[[nodiscard]] bool is_this_machine(const std::string& host);

}  // namespace lockstep::starters
