#include "tests/support/network_pair.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <stdexcept>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

constexpr const char* kFamily = "lockstep-test-";
constexpr const char* kCable = "lk0";

std::string find_ip() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"}) {
    if (std::filesystem::exists(path)) return path;
  }
  throw std::runtime_error("`ip` is missing: apt-get install iproute2 (tools/setup.sh does it)");
}

ProgramResult run(const std::vector<std::string>& argv) {
  ProgramOptions options;
  options.deadline = std::chrono::seconds(10);
  return run_program(argv, options);
}

void require(const std::vector<std::string>& argv) {
  const ProgramResult result = run(argv);
  if (result.exit_code == 0) return;
  std::string command;
  for (const std::string& word : argv) command += word + " ";
  throw std::runtime_error(command + "failed; network namespaces need root (CAP_SYS_ADMIN and " +
                           "CAP_NET_ADMIN): " + result.describe());
}

/// Namespaces of test processes that live no more.
void remove_leftovers(const std::string& ip) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kFamily)) continue;
    const std::string_view digits = std::string_view(name).substr(std::string_view(kFamily).size());
    int process = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), process);
    if (process > 0 && ::kill(process, 0) != 0) (void)run({ip, "netns", "delete", name});
  }
}

}  // namespace

NetworkPair::NetworkPair() : ip_(find_ip()), prefix_(kFamily + std::to_string(::getpid()) + "-") {
  remove_leftovers(ip_);
  try {
    for (const int host : {0, 1}) require({ip_, "netns", "add", name(host)});
    require({ip_, "link", "add", kCable, "netns", name(0), "type", "veth", "peer", "name", kCable,
             "netns", name(1)});
    for (const int host : {0, 1}) {
      require({ip_, "-n", name(host), "address", "add", address(host) + "/24", "dev", kCable});
      require({ip_, "-n", name(host), "link", "set", "lo", "up"});
      require({ip_, "-n", name(host), "link", "set", kCable, "up"});
    }
  } catch (...) {
    remove();
    throw;
  }
}

NetworkPair::~NetworkPair() { remove(); }

/// The cable goes with its ends.
void NetworkPair::remove() const {
  for (const int host : {0, 1}) (void)run({ip_, "netns", "delete", name(host)});
}

std::string NetworkPair::name(int host) const { return prefix_ + std::to_string(host); }

std::string NetworkPair::address(int host) { return "10.77.0." + std::to_string(host + 1); }

std::vector<std::string> NetworkPair::on_host(int host, std::vector<std::string> argv) const {
  std::vector<std::string> command{ip_, "netns", "exec", name(host)};
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

void NetworkPair::cut() const { require({ip_, "-n", name(1), "link", "set", kCable, "down"}); }

}  // namespace lockstep::test
