#include "tests/support/network_pair.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "tests/support/eventually.h"

namespace lockstep::test {
namespace {

constexpr const char* kCable = "lk0";
constexpr int kMiddle = 2;

// Who is not root may do all this as root of a user namespace.
bool is_root() { return ::geteuid() == 0; }

std::string find_ip() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"}) {
    if (std::filesystem::exists(path)) return path;
  }
  throw std::runtime_error("`ip` is missing: apt-get install iproute2 (tools/setup.sh does it)");
}

[[noreturn]] void fail(const std::vector<std::string>& argv, const ProgramResult& result) {
  std::string command;
  for (const std::string& word : argv) command += word + " ";
  throw std::runtime_error(
      command +
      "failed; network namespaces need root, or a system that lets every user make them " +
      "(sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns): " +
      result.describe());
}

}  // namespace

NetworkPair::NetworkPair(Cable cable) : ip_(find_ip()) {
  open_host(0, is_root()
                   ? std::vector<std::string>{"unshare", "--net"}
                   : std::vector<std::string>{"unshare", "--user", "--map-root-user", "--net"});
  open_host(1, on_host(0, {"unshare", "--net"}));
  if (cable == Cable::good) {
    connect(0, 1, kCable);
  } else {
    open_host(kMiddle, on_host(0, {"unshare", "--net"}));
    for (const int host : {0, 1}) {
      const std::string end = kCable + std::to_string(host);
      connect(host, kMiddle, end);
      ip(kMiddle, {"link", "set", end, "up"});
      ip(host, {"link", "set", kCable, "gso_max_segs", "1"});  // packets as on a real cable
    }
  }
  for (const int host : {0, 1}) {
    ip(host, {"address", "add", address(host) + "/24", "dev", kCable});
    ip(host, {"link", "set", "lo", "up"});
    ip(host, {"link", "set", kCable, "up"});
  }
  if (cable == Cable::good) return;
  relay_ = std::make_unique<PacketRelay>(
      hosts_[kMiddle]->pid(), !is_root(),
      std::array<std::string, 2>{std::string(kCable) + "0", std::string(kCable) + "1"});
}

void NetworkPair::connect(int host, int other, const std::string& other_end) {
  ip(host, {"link", "add", kCable, "type", "veth", "peer", "name", other_end, "netns",
            std::to_string(hosts_[other]->pid())});
}

/// \param command that makes the namespaces and goes on as the words behind it.
void NetworkPair::open_host(int host, std::vector<std::string> command) {
  command.insert(command.end(), {"setpriv", "--pdeathsig", "KILL", "sleep", "infinity"});
  hosts_[host] = std::make_unique<RunningProgram>(command);
  RunningProgram& holder = *hosts_[host];
  const std::filesystem::path proc = "/proc/" + std::to_string(holder.pid());
  const bool stands = eventually([&] {
    return read_file(proc / "comm") == "sleep\n" ||
           read_file(proc / "stat").find(") Z ") != std::string::npos;
  });
  if (stands && read_file(proc / "comm") == "sleep\n") return;
  holder.send_signal(SIGKILL);
  fail(command, holder.wait());
}

void NetworkPair::ip(int host, const std::vector<std::string>& words) const {
  std::vector<std::string> command{ip_};
  command.insert(command.end(), words.begin(), words.end());
  command = on_host(host, command);
  ProgramOptions options;
  options.deadline = std::chrono::seconds(10);
  const ProgramResult result = run_program(command, options);
  if (result.exit_code != 0) fail(command, result);
}

std::string NetworkPair::address(int host) { return "10.77.0." + std::to_string(host + 1); }

std::vector<std::string> NetworkPair::on_host(int host,
                                              const std::vector<std::string>& argv) const {
  std::vector<std::string> command{"nsenter", "--target", std::to_string(hosts_[host]->pid()),
                                   "--net"};
  if (!is_root()) command.insert(command.end(), {"--user", "--preserve-credentials"});
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

void NetworkPair::cut() const { ip(1, {"link", "set", kCable, "down"}); }

}  // namespace lockstep::test
