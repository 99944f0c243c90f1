// The axes of a scaling plot: linear up to eight-fold, then doubling.
#pragma once
#include <string>
#include <vector>

#include "lockstep/metrics/scaling.h"

namespace lockstep::metrics {

/// Maps rank counts and speedups to 0 ... 1, both axes linear or both doubling, so that the ideal
/// line is straight.
class ScalingAxis {
 public:
  /// \param rows at least one, in order of ranks.
  explicit ScalingAxis(const std::vector<ScalingRow>& rows);

  [[nodiscard]] double x(double ranks) const { return share(ranks, first_rank_, last_rank_); }
  [[nodiscard]] double y(double speedup) const { return share(speedup, low_, high_); }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  /// Round speedups between low and high, at most about `count`.
  [[nodiscard]] std::vector<double> y_ticks(int count) const;

 private:
  [[nodiscard]] double share(double value, double from, double to) const;

  bool is_doubling_ = false;
  double first_rank_ = 1;
  double last_rank_ = 1;
  double low_ = 0;
  double high_ = 1;
};

/// "0.5", "1", "64".
[[nodiscard]] std::string tick_text(double tick);

}  // namespace lockstep::metrics
