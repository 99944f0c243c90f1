// Two hosts on one machine, as far as the network goes: namespaces joined by one cable.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/packet_relay.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

/// What the cable is.
enum class Cable : std::uint8_t {
  good,
  relayed,  // through a process that can lose and delay packets
};

/// Needs `ip` of iproute2, and root or a system that gives every user namespaces. A sleeping
/// process holds each host open: nothing is left over when the test is killed.
class NetworkPair {
 public:
  /// \throws std::runtime_error saying what is missing.
  explicit NetworkPair(Cable cable = Cable::good);

  /// "10.77.0.1" of host 0, "10.77.0.2" of host 1.
  [[nodiscard]] static std::string address(int host);
  /// The command that runs `argv` on a host.
  [[nodiscard]] std::vector<std::string> on_host(int host,
                                                 const std::vector<std::string>& argv) const;
  /// Pulls the cable out: nothing arrives any more, and nobody is told.
  void cut() const;
  /// The cable of a relayed pair.
  [[nodiscard]] PacketRelay& relay() { return *relay_; }

 private:
  void open_host(int host, std::vector<std::string> command);
  void connect(int host, int other, const std::string& other_end);
  /// Runs `ip` with the words on a host.
  void ip(int host, const std::vector<std::string>& words) const;

  std::string ip_;                                        // the program
  std::array<std::unique_ptr<RunningProgram>, 3> hosts_;  // the third holds the relay
  std::unique_ptr<PacketRelay> relay_;
};

}  // namespace lockstep::test
