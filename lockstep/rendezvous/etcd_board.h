// A board in etcd: it outlives any host of the job.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/rendezvous/board.h"
#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/etcd_membership.h"
#include "lockstep/rendezvous/note_limit.h"

namespace lockstep::rendezvous {

struct EtcdBoardTimes {
  std::chrono::milliseconds look{100};       // between looks at what others wrote,
  std::chrono::milliseconds watched{1'000};  // and while etcd tells that there is something
  std::chrono::milliseconds first{8'000};    // for the first answer of any server
  std::chrono::milliseconds lost{60'000};    // without an answer later
  std::chrono::seconds state_life{kStateLife};
};

struct EtcdBoardOptions {
  std::vector<Endpoint> endpoints;  // of one etcd; at least one
  std::string prefix;               // of all keys: "lockstep/<run id>"
  std::string agent;                // own id
  OnWaiting on_waiting;             // about every five seconds while etcd does not answer: why
  EtcdBoardTimes times{};
};

/// Below the prefix: "agents/<id>" (a lease of three seconds, kept alive by publish()), "leader"
/// (the same lease; who made it leads until it ends) and "state", which only the maker of the
/// present "leader" can write: that is part of the transaction. It has a lease of its own, which
/// the leader keeps: nothing of a job stays for ever.
class EtcdBoard final : public Board {
 public:
  /// Asks nothing yet; requests are made by a thread of its own.
  explicit EtcdBoard(EtcdBoardOptions options);
  /// Tells the others that this agent leaves, within a second.
  ~EtcdBoard() override;

  void publish(const std::string& record) override;
  void announce(const std::string& state) override;
  [[nodiscard]] std::vector<BoardEvent> wait(Deadline until, int wake_fd) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::rendezvous
