#include "tests/support/network_pair.h"

#include <unistd.h>

namespace lockstep::test {
namespace {

constexpr const char* kCable = "lk0";
constexpr int kMiddle = 2;  // holds the relay

}  // namespace

NetworkPair::NetworkPair(Cable cable) {
  hosts_.open();
  hosts_.open();
  if (cable == Cable::good) {
    hosts_.connect(0, kCable, 1, kCable);
  } else {
    hosts_.open();
    for (const int host : {0, 1}) {
      const std::string end = kCable + std::to_string(host);
      hosts_.connect(host, kCable, kMiddle, end);
      hosts_.ip(kMiddle, {"link", "set", end, "up"});
      // Packets as on a real cable.
      hosts_.ip(host, {"link", "set", kCable, "gso_max_segs", "1"});
    }
  }
  for (const int host : {0, 1}) {
    hosts_.ip(host, {"address", "add", address(host) + "/24", "dev", kCable});
    hosts_.ip(host, {"link", "set", "lo", "up"});
    hosts_.ip(host, {"link", "set", kCable, "up"});
  }
  if (cable == Cable::good) return;
  relay_ = std::make_unique<PacketRelay>(
      hosts_.holder(kMiddle), ::geteuid() != 0,
      std::array<std::string, 2>{std::string(kCable) + "0", std::string(kCable) + "1"});
}

std::string NetworkPair::address(int host) { return "10.77.0." + std::to_string(host + 1); }

void NetworkPair::cut() const { hosts_.ip(1, {"link", "set", kCable, "down"}); }

}  // namespace lockstep::test
