// Two hosts on one machine, as far as the network goes: namespaces joined by one cable.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/network_namespaces.h"
#include "tests/support/packet_relay.h"

namespace lockstep::test {

/// What the cable is.
enum class Cable : std::uint8_t {
  good,
  relayed,  // through a process that can lose and delay packets
};

class NetworkPair {
 public:
  /// \throws std::runtime_error saying what is missing.
  explicit NetworkPair(Cable cable = Cable::good);

  /// "10.77.0.1" of host 0, "10.77.0.2" of host 1.
  [[nodiscard]] static std::string address(int host);
  /// The command that runs `argv` on a host.
  [[nodiscard]] std::vector<std::string> on_host(int host,
                                                 const std::vector<std::string>& argv) const {
    return hosts_.in(host, argv);
  }
  /// Pulls the cable out: nothing arrives any more, and nobody is told.
  void cut() const;
  /// The cable of a relayed pair.
  [[nodiscard]] PacketRelay& relay() { return *relay_; }

 private:
  NetworkNamespaces hosts_;
  std::unique_ptr<PacketRelay> relay_;
};

}  // namespace lockstep::test
