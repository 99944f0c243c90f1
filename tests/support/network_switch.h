// Several hosts on one machine, as far as network and host name go: each has a cable to one switch.
#pragma once
#include <string>
#include <vector>

#include "tests/support/network_namespaces.h"

namespace lockstep::test {

class NetworkSwitch {
 public:
  /// \throws std::runtime_error saying what is missing.
  explicit NetworkSwitch(int hosts);

  /// "10.77.0.1" of host 0, "10.77.0.2" of host 1.
  [[nodiscard]] static std::string address(int host);
  /// "host-0". Nothing resolves it.
  [[nodiscard]] static std::string name(int host);
  /// The command that runs `argv` on a host; the process started is that of `argv`.
  [[nodiscard]] std::vector<std::string> on_host(int host,
                                                 const std::vector<std::string>& argv) const;
  /// Of the switch itself, where a service of all hosts can run.
  [[nodiscard]] static std::string own_address() { return "10.77.0.100"; }
  [[nodiscard]] std::vector<std::string> on_switch(const std::vector<std::string>& argv) const;
  /// Pulls the host's cable out of the switch: nothing arrives any more, and nobody is told.
  void cut(int host) const;
  /// Runs `ip` with the words on a host; its cable is called "cable".
  void ip(int host, const std::vector<std::string>& words) const;

 private:
  NetworkNamespaces networks_;  // the first is the switch
};

}  // namespace lockstep::test
