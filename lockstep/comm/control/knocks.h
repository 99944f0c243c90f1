// Whether a host answers at all.
#pragma once
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/fd.h"

namespace lockstep::comm::control {

/// Attempts to connect to a port there, one after the other. Each stands for itself, where one lost
/// packet holds up all that a connection says after it: with a twentieth of all packets lost, ten
/// attempts in a row fail once in ten thousand million times. Whether somebody listens does not
/// matter, a refusal is an answer, too.
class Knocks {
 public:
  using Clock = std::chrono::steady_clock;

  /// \param host numeric address.
  Knocks(std::string host, int port) : host_(std::move(host)), port_(port) {}

  /// Begins an attempt if the last is old enough, and looks at those under way. Does not block.
  void tend(Clock::time_point now);
  void stop() { under_way_.clear(); }
  /// When the last answer was seen.
  [[nodiscard]] std::optional<Clock::time_point> answered() const { return answered_; }

 private:
  struct Attempt {
    Clock::time_point begun;
    Fd socket;
  };

  void begin(Clock::time_point now);

  std::string host_;
  int port_;
  std::deque<Attempt> under_way_;
  Clock::time_point last_{};
  std::optional<Clock::time_point> answered_{};
};

}  // namespace lockstep::comm::control
