// Boards of several agents in one process, for tests of sessions.
#pragma once
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/rendezvous/board.h"

namespace lockstep::rendezvous::testing {

class MemoryBoard;

/// What the boards share. The first agent leads; when it goes the next does.
class MemoryHub {
 public:
  /// Nothing comes to or from this agent.
  void cut_off(const std::string& id) {
    const std::lock_guard lock(mutex_);
    cut_off_.insert(id);
  }

 private:
  friend class MemoryBoard;
  std::mutex mutex_;
  std::map<std::string, MemoryBoard*> boards_;
  std::set<std::string> cut_off_;
  std::string leader_;
  std::string state_;
};

class MemoryBoard final : public Board {
 public:
  MemoryBoard(MemoryHub& hub, std::string id)
      : hub_(hub), id_(std::move(id)), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(hub_.mutex_);
    hub_.boards_[id_] = this;
    if (hub_.leader_.empty()) lead();
    if (!hub_.state_.empty()) push({BoardEvent::Kind::state, {}, hub_.state_});
  }
  ~MemoryBoard() override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.boards_.erase(id_);
    if (hub_.leader_ == id_) {
      hub_.leader_.clear();
      if (!hub_.boards_.empty()) hub_.boards_.begin()->second->lead();
    }
    tell_leader({BoardEvent::Kind::gone, id_, {}});
  }

  void publish(const std::string& record) override {
    const std::lock_guard lock(hub_.mutex_);
    record_ = record;
    if (hub_.cut_off_.contains(id_) || hub_.leader_.empty()) return;
    tell_leader({BoardEvent::Kind::record, id_, record});
    push({BoardEvent::Kind::heard, {}, {}, std::chrono::steady_clock::now()});
  }

  void announce(const std::string& state) override {
    const std::lock_guard lock(hub_.mutex_);
    if (hub_.leader_ != id_ || hub_.cut_off_.contains(id_)) return;
    hub_.state_ = state;
    for (const auto& [id, board] : hub_.boards_) {
      if (!hub_.cut_off_.contains(id)) board->push({BoardEvent::Kind::state, {}, state});
    }
  }

  [[nodiscard]] std::vector<BoardEvent> wait(Deadline until, int wake_fd) override {
    std::array<pollfd, 2> polls{{{event_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}}};
    (void)::poll(polls.data(), polls.size(), poll_timeout_ms(until));
    const std::lock_guard lock(hub_.mutex_);
    std::uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof count);
    return std::exchange(events_, {});
  }

 private:
  // With the hub's mutex held:
  void push(BoardEvent event) {
    events_.push_back(std::move(event));
    const std::uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
  }
  void lead() {
    hub_.leader_ = id_;
    push({BoardEvent::Kind::leading, {}, hub_.state_});
    for (const auto& [id, board] : hub_.boards_) {
      if (!board->record_.empty()) push({BoardEvent::Kind::record, id, board->record_});
    }
    push({BoardEvent::Kind::listed, {}, {}});
  }
  void tell_leader(BoardEvent event) {
    const auto leader = hub_.boards_.find(hub_.leader_);
    if (leader != hub_.boards_.end()) leader->second->push(std::move(event));
  }

  MemoryHub& hub_;
  std::string id_;
  Fd event_;
  std::vector<BoardEvent> events_;
  std::string record_;
};

}  // namespace lockstep::rendezvous::testing
