// A board without a service: the agent that could bind the endpoint's address leads and serves it.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/rendezvous/board.h"
#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/job_secret.h"
#include "lockstep/rendezvous/note_limit.h"

namespace lockstep::rendezvous {

struct TcpBoardTimes {
  /// While nobody listens there: the host that leads may start later.
  std::chrono::milliseconds join{600'000};
  /// While nothing answers, there is no way, or the name means nothing.
  std::chrono::milliseconds hopeless{8'000};
  /// While what answers does not prove itself, and it is not another lockstep.
  std::chrono::milliseconds stranger{800};
  /// Without any answer of a leader that was there before.
  std::chrono::milliseconds lost{30'000};
  /// While its host says that nobody listens any more.
  std::chrono::milliseconds ended{2'000};
  /// Without an answer, before a connection is given up and another is made.
  std::chrono::milliseconds silence{5'000};
};

struct TcpBoardOptions {
  Endpoint endpoint;
  std::string agent;  // own id
  JobKey key;
  OnWaiting on_waiting;  // about every five seconds while there is no leader: why
  OnNote on_note;        // refused strangers and the like
  TcpBoardTimes times{};
  /// Where a leader leaves its mark (rendezvous/leader_mark.h).
  std::filesystem::path mark_folder = "/dev/shm";
};

/// When the leader's process ends, another agent of its host goes on from the last state; when its
/// host is lost, wait() throws on the others. An agent that knows of a round never follows a leader
/// of another start of the job, and such a leader is told until when the one before may have
/// answered: ranks of it may still run.
class TcpBoard final : public Board {
 public:
  /// Opens nothing: wait() does.
  explicit TcpBoard(TcpBoardOptions options);
  /// Tells the others that this agent leaves; a leader waits, a second at most, until they have
  /// what it announced.
  ~TcpBoard() override;

  void publish(const std::string& record) override;
  void announce(const std::string& state) override;
  void conclude() override;
  [[nodiscard]] std::vector<BoardEvent> wait(Deadline until, int wake_fd) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::rendezvous
