// A session of a job of several hosts: a board, the rules of membership, and a thread that keeps up
// this agent's signs of life.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/rendezvous/board.h"
#include "lockstep/rendezvous/node.h"

namespace lockstep::rendezvous {

/// For people: who is missing, why a round ends, who was refused. Called by a thread of the
/// session, one call at a time.
using OnSessionNote = std::function<void(const std::string& text)>;

class BoardSession final : public Session {
 public:
  /// \param agent `equal` is what must be the same on all hosts.
  BoardSession(std::unique_ptr<Board> board, Agent agent, const NodeSettings& settings,
               OnSessionNote on_note = {});
  /// Leaves the board. A session that has given its verdict has told the others before.
  ~BoardSession() override;

  [[nodiscard]] std::variant<Round, Verdict> next(int stop_fd) override;
  [[nodiscard]] int interrupt_fd() const override { return interrupt_.get(); }
  [[nodiscard]] std::string interrupt_reason() const override;
  [[nodiscard]] bool is_fenced() const override { return is_fenced_.load(); }
  [[nodiscard]] bool may_save() const override { return may_save_.load(); }
  [[nodiscard]] Deadline fence_at() const override;
  void leaving() override;
  void failing(const Failure& failure) override;
  void report(const RoundEnd& end) override;

 private:
  // of the thread
  void run();
  void converse();
  void take(const BoardEvent& event);
  void step(const NodeInput& input);
  void act(const Publish& publish);
  void act(const Announce& announce);
  void act(const StartRanks& start);
  void act(const StopRanks& stop);
  void act(const Finish& finish);
  void act(const Note& note);
  [[nodiscard]] std::vector<NodeInput> take_asked();

  void ask(NodeInput input);
  void interrupt(bool at_once, const std::string& because);

  std::unique_ptr<Board> board_;  // the thread's, as the next two
  Node node_;
  OnSessionNote on_note_;
  Fd wake_;       // readable: something was asked of the thread
  Fd news_;       // readable: next() has something
  Fd interrupt_;  // readable: the ranks are to be stopped
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_fenced_{false};
  std::atomic<bool> may_save_{false};
  std::atomic<double> fence_at_s_;

  mutable std::mutex mutex_;
  std::vector<NodeInput> asked_;
  std::optional<Round> round_;  // not handed out yet
  std::optional<Finish> finish_;
  std::exception_ptr error_;
  std::string reason_;

  std::thread thread_;
};

}  // namespace lockstep::rendezvous
