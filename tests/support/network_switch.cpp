#include "tests/support/network_switch.h"

namespace lockstep::test {
namespace {

constexpr int kSwitch = 0;
constexpr const char* kBridge = "bridge0";

int network_of(int host) { return host + 1; }
std::string port_of(int host) { return "port" + std::to_string(host); }

}  // namespace

NetworkSwitch::NetworkSwitch(int hosts) {
  networks_.open();
  networks_.ip(kSwitch, {"link", "add", kBridge, "type", "bridge"});
  networks_.ip(kSwitch, {"address", "add", own_address() + "/24", "dev", kBridge});
  networks_.ip(kSwitch, {"link", "set", "lo", "up"});
  networks_.ip(kSwitch, {"link", "set", kBridge, "up"});
  for (int host = 0; host < hosts; ++host) {
    networks_.open();
    networks_.connect(network_of(host), "cable", kSwitch, port_of(host));
    networks_.ip(kSwitch, {"link", "set", port_of(host), "master", kBridge, "up"});
    ip(host, {"address", "add", address(host) + "/24", "dev", "cable"});
    ip(host, {"link", "set", "lo", "up"});
    ip(host, {"link", "set", "cable", "up"});
  }
}

std::string NetworkSwitch::address(int host) { return "10.77.0." + std::to_string(host + 1); }

std::string NetworkSwitch::name(int host) { return "host-" + std::to_string(host); }

std::vector<std::string> NetworkSwitch::on_host(int host,
                                                const std::vector<std::string>& argv) const {
  std::vector<std::string> command{
      "unshare", "--uts", "sh", "-c", "hostname " + name(host) + "; exec \"$@\"", "sh"};
  command.insert(command.end(), argv.begin(), argv.end());
  return networks_.in(network_of(host), command);
}

std::vector<std::string> NetworkSwitch::on_switch(const std::vector<std::string>& argv) const {
  return networks_.in(kSwitch, argv);
}

void NetworkSwitch::cut(int host) const {
  networks_.ip(kSwitch, {"link", "set", port_of(host), "down"});
}

void NetworkSwitch::ip(int host, const std::vector<std::string>& words) const {
  networks_.ip(network_of(host), words);
}

}  // namespace lockstep::test
