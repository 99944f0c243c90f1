// Two hosts on one machine, as far as the network goes: namespaces joined by one cable.
#pragma once
#include <string>
#include <vector>

namespace lockstep::test {

/// Needs root and `ip` of iproute2. Names hold the process id; the destructor removes all, and the
/// constructor what earlier tests left that were killed.
class NetworkPair {
 public:
  /// \throws std::runtime_error saying what is missing.
  NetworkPair();
  NetworkPair(const NetworkPair&) = delete;
  NetworkPair& operator=(const NetworkPair&) = delete;
  ~NetworkPair();

  /// "10.77.0.1" of host 0, "10.77.0.2" of host 1.
  [[nodiscard]] static std::string address(int host);
  /// The command that runs `argv` on a host.
  [[nodiscard]] std::vector<std::string> on_host(int host, std::vector<std::string> argv) const;
  /// Pulls the cable out: nothing arrives any more, and nobody is told.
  void cut() const;

 private:
  [[nodiscard]] std::string name(int host) const;
  void remove() const;

  std::string ip_;      // the program
  std::string prefix_;  // of the namespaces' names
};

}  // namespace lockstep::test
