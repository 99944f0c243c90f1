// An sshd of this user on a free port of 127.0.0.1, with keys made for it: hosts node-a, node-b and
// node-c of its client configuration are this machine.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/base/socket.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

class SshServer {
 public:
  SshServer() {
    make_key("host_key");
    make_key("user_key");
    write_file(folder_ / "authorized", read_file(folder_ / "user_key.pub"));
    if (::getuid() == 0) ::mkdir("/run/sshd", 0755);  // sshd of root wants its empty folder
    for (int attempt = 0; attempt < 10 && server_ == nullptr; ++attempt) start();
    EXPECT_NE(server_, nullptr) << "sshd does not start";
    const std::string host_key = read_file(folder_ / "host_key.pub");
    const std::string port = std::to_string(port_);
    write_file(folder_ / "known_hosts", "[127.0.0.1]:" + port + " " + host_key);
    write_file(folder_ / "config", "Host node-a node-b node-c\n  HostName 127.0.0.1\n  Port " +
                                       port + "\n  IdentityFile " + folder_ / "user_key" +
                                       "\n  IdentitiesOnly yes\n  UserKnownHostsFile " +
                                       folder_ / "known_hosts" +
                                       "\nHost stranger\n  HostName 127.0.0.1\n  Port " + port +
                                       "\n  IdentityFile " + folder_ / "user_key" +
                                       "\n  UserKnownHostsFile /dev/null\nHost refused\n  HostName "
                                       "127.0.0.1\n  Port 1\n");
  }

  /// Of sshd: what it started is below.
  [[nodiscard]] int pid() const { return server_->pid(); }
  /// For ssh -F.
  [[nodiscard]] std::string client_config() const { return folder_ / "config"; }

 private:
  void make_key(const std::string& name) {
    const ProgramResult made = run_program(
        {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder_ / name});
    EXPECT_EQ(made.exit_code, 0) << made.describe();
  }

  void start() {
    port_ = listen_on("127.0.0.1", 0).port;  // free again at once: taken by others only by chance
    write_file(folder_ / "sshd_config",
               "ListenAddress 127.0.0.1\nPort " + std::to_string(port_) + "\nHostKey " +
                   folder_ / "host_key" + "\nAuthorizedKeysFile " + folder_ / "authorized" +
                   "\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                   "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
                   "MaxStartups 100\nPrintMotd no\n");
    auto server = std::make_unique<RunningProgram>(
        std::vector<std::string>{"/usr/sbin/sshd", "-D", "-e", "-f", folder_ / "sshd_config"},
        ProgramOptions{});
    try {
      (void)connect_to("127.0.0.1", port_,
                       std::chrono::steady_clock::now() + std::chrono::seconds(5));
      server_ = std::move(server);
    } catch (const EnvironmentFault&) {  // another port
    }
  }

  TemporaryFolder folder_;
  int port_ = 0;
  std::unique_ptr<RunningProgram> server_;
};

}  // namespace lockstep::test
