#include "tests/support/network_namespaces.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "tests/support/eventually.h"

namespace lockstep::test {
namespace {

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

NetworkNamespaces::NetworkNamespaces() : ip_(find_ip()) {}

/// The first makes the user namespace that the others are in.
void NetworkNamespaces::open() {
  std::vector<std::string> command{"unshare", "--net"};
  if (!holders_.empty()) {
    command = in(0, command);
  } else if (!is_root()) {
    command.insert(command.end(), {"--user", "--map-root-user"});
  }
  command.insert(command.end(), {"setpriv", "--pdeathsig", "KILL", "sleep", "infinity"});
  auto holder = std::make_unique<RunningProgram>(command);
  const std::filesystem::path proc = "/proc/" + std::to_string(holder->pid());
  const bool stands = eventually([&] {
    return read_file(proc / "comm") == "sleep\n" ||
           read_file(proc / "stat").find(") Z ") != std::string::npos;
  });
  if (!stands || read_file(proc / "comm") != "sleep\n") {
    holder->send_signal(SIGKILL);
    fail(command, holder->wait());
  }
  holders_.push_back(std::move(holder));
}

int NetworkNamespaces::holder(int number) const {
  return holders_[static_cast<std::size_t>(number)]->pid();
}

std::vector<std::string> NetworkNamespaces::in(int number,
                                               const std::vector<std::string>& argv) const {
  std::vector<std::string> command{"nsenter", "--target", std::to_string(holder(number)), "--net"};
  if (!is_root()) command.insert(command.end(), {"--user", "--preserve-credentials"});
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

void NetworkNamespaces::ip(int number, const std::vector<std::string>& words) const {
  std::vector<std::string> command{ip_};
  command.insert(command.end(), words.begin(), words.end());
  command = in(number, command);
  ProgramOptions options;
  options.deadline = std::chrono::seconds(10);
  const ProgramResult result = run_program(command, options);
  if (result.exit_code != 0) fail(command, result);
}

void NetworkNamespaces::connect(int number, const std::string& end, int other,
                                const std::string& other_end) const {
  ip(number, {"link", "add", end, "type", "veth", "peer", "name", other_end, "netns",
              std::to_string(holder(other))});
}

}  // namespace lockstep::test
