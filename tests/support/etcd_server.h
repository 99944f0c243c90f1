// A real etcd on loopback with a scratch folder, for tests.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/etcd_client.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::test {

/// The command that starts one. \param host address where clients reach it.
[[nodiscard]] inline std::vector<std::string> etcd_command(const std::string& folder,
                                                           const std::string& host, int client_port,
                                                           int peer_port) {
  const std::string clients = "http://" + host + ":" + std::to_string(client_port);
  const std::string peer = "http://127.0.0.1:" + std::to_string(peer_port);
  return {"etcd",
          "--data-dir",
          folder,
          "--listen-client-urls",
          clients,
          "--advertise-client-urls",
          clients,
          "--listen-peer-urls",
          peer,
          "--initial-advertise-peer-urls",
          peer,
          "--initial-cluster",
          "default=" + peer};
}

class EtcdServer {
 public:
  EtcdServer() : client_port_(listen_on("127.0.0.1", 0).port) {
    peer_port_ = listen_on("127.0.0.1", 0).port;
    start();
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;
  ~EtcdServer() { end(); }

  /// "127.0.0.1:2379", as --rdzv-endpoint takes it.
  [[nodiscard]] std::string address() const { return endpoints().front().text(); }
  [[nodiscard]] std::vector<rendezvous::Endpoint> endpoints() const {
    return {{"127.0.0.1", client_port_}};
  }

  /// With what it had stored when it ended. Waits until it answers.
  void start() {
    std::vector<std::string> command =
        etcd_command(folder_.file("data"), "127.0.0.1", client_port_, peer_port_);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log = folder_.file("log");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    rendezvous::EtcdClient client(endpoints());
    const bool answers = eventually([&] {
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error("etcd ended: apt-get install etcd-server (tools/setup.sh)");
      }
      try {
        return client.grant_lease(std::chrono::seconds(1)) != 0;
      } catch (const rendezvous::EtcdTrouble&) {
        return false;
      }
    });
    if (!answers) throw std::runtime_error("etcd does not answer");
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void pause() const { ::kill(pid_, SIGSTOP); }
  void resume() const { ::kill(pid_, SIGCONT); }

 private:
  ScratchFolder folder_;
  int client_port_ = 0;
  int peer_port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace lockstep::test
