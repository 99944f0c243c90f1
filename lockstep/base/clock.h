// Time that only runs forward. Everything that measures or waits takes a Clock, so that tests can
// move it.
#pragma once
#include <functional>
#include <utility>

namespace lockstep {

/// Seconds since an arbitrary start; only differences mean something.
using Clock = std::function<double()>;

/// The monotonic clock of this machine, in seconds.
[[nodiscard]] double monotonic_s();

/// Seconds since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(Clock clock = monotonic_s) : clock_(std::move(clock)), start_s_(clock_()) {}
  [[nodiscard]] double elapsed_s() const { return clock_() - start_s_; }

 private:
  Clock clock_;
  double start_s_;
};

}  // namespace lockstep
