// How much of a long training on many devices is progress, when devices fail: checkpoints, what is
// computed again after a failure, and restarts. Pure functions.
#pragma once
#include <cstdint>

namespace lockstep::planner {

struct GoodputQuestion {
  double unit_mtbf_s = 0;   // mean time between failures of one unit, a device or a host
  std::int64_t units = 1;   // any one of them stops the training
  double checkpoint_s = 0;  // that training stands still for one; 0 = it never does
  double restart_s = 0;     // from a failure until steps run again
  double interval_s = 0;    // of training between two checkpoints; 0 = the best
  [[nodiscard]] double failures_per_s() const;
};

struct Goodput {
  double interval_s = 0;       // that the shares are of
  double best_interval_s = 0;  // sqrt(2 C / L) (Young 1974, doi:10.1145/361147.361115)
  /// 1 - (C / T + L (T / 2 + R)), never below 0. Good to a point while it is above 0.85.
  double share = 1;
  /// The same for failures at any rate, those during checkpoints and restarts counted:
  /// T / (M exp(R / M) (exp((T + C) / M) - 1)) with M = 1 / L (Daly 2006,
  /// doi:10.1016/j.future.2004.11.016).
  double exact_share = 1;
  double failures_a_day = 0;
};

/// \pre what is given is not negative, units >= 1, unit_mtbf_s > 0.
[[nodiscard]] Goodput goodput(const GoodputQuestion& question);

/// Seconds that a training takes which would take ideal_s without failures and checkpoints, by
/// exact_share; infinite where nothing is ever finished.
[[nodiscard]] double expected_s(const Goodput& goodput, double ideal_s);

}  // namespace lockstep::planner
