// The way of an agent to the one that leads: found, lost and found again.
#pragma once
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/rendezvous/control_link.h"
#include "lockstep/rendezvous/tcp_board.h"

namespace lockstep::rendezvous {

/// Finds out who leads, by a bind and by a handshake, and talks to it. Never blocks, but for the
/// resolver of names.
class LeaderLink {
 public:
  explicit LeaderLink(const TcpBoardOptions& options);

  /// Does what can be done now; adds `not_leading`, `state` and `heard`. \throws EnvironmentFault.
  void tend(std::vector<BoardEvent>& events);
  /// Whether this host is the endpoint's and nobody leads: this agent has to.
  [[nodiscard]] bool has_listener() const { return static_cast<bool>(listener_.fd); }
  [[nodiscard]] Listener take_listener() { return std::move(listener_); }

  void publish(const std::string& record);
  /// Tells the leader that this agent goes.
  void leave();

  void add_polls(std::vector<pollfd>& polls) const;
  [[nodiscard]] Deadline wake_at() const;
  /// Of the leader, once there was one: who takes over keeps both.
  [[nodiscard]] const std::string& lineage() const { return lineage_; }
  [[nodiscard]] const std::string& last_state() const { return last_state_; }

 private:
  using Clock = std::chrono::steady_clock;

  void seek(std::vector<BoardEvent>& events);
  void look_at_attempt(std::vector<BoardEvent>& events);
  void look_at_link(std::vector<BoardEvent>& events);
  void take(Frame& frame, std::vector<BoardEvent>& events);
  void welcome(const std::string& payload, std::vector<BoardEvent>& events);
  void heard(const std::string& payload, std::vector<BoardEvent>& events);
  void send_newest();
  void in_trouble(Unreached trouble, const std::string& text);
  void judge_trouble();
  [[nodiscard]] std::chrono::milliseconds patience() const;
  [[nodiscard]] Deadline attempt_end() const;
  [[nodiscard]] std::chrono::milliseconds proof_limit() const;
  void tell_waiting();
  [[noreturn]] void fail_for_trouble() const;
  [[noreturn]] void fail_unproved(const std::string& text) const;
  [[noreturn]] void fail_for(const ControlLink& link) const;
  [[noreturn]] void fail(const char* code, const std::string& what, const std::string& fix) const;
  [[nodiscard]] bool was_joined() const { return !lineage_.empty(); }

  const TcpBoardOptions& options_;
  Clock::time_point started_ = Clock::now();
  std::vector<SocketAddress> addresses_;
  Listener listener_;
  bool is_own_host_ = false;
  std::optional<Attempt> attempt_;
  std::optional<ControlLink> link_;
  Clock::time_point link_since_{};  // of the attempt, then of the connection
  bool joined_ = false;             // the leader has said welcome

  std::optional<Unreached> trouble_;  // since when nothing else was met:
  Clock::time_point trouble_since_{};
  std::string trouble_text_;
  Clock::time_point try_at_{};
  std::chrono::milliseconds pause_{};
  Clock::time_point tell_at_;

  std::string record_;  // the newest
  Clock::time_point published_{};
  bool record_waits_ = false;
  std::uint64_t number_ = 0;                                      // of the newest that was sent
  std::deque<std::pair<std::uint64_t, Clock::time_point>> sent_;  // not answered; when published
  Clock::time_point answered_{};  // or joined, or first sent after an answer

  std::string lineage_;
  std::string last_state_;
};

}  // namespace lockstep::rendezvous
