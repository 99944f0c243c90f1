// What a stream of StepReports says about the run so far: rate, time left, and the curve of the
// loss.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "lockstep/engine/values/step_report.h"

namespace lockstep::metrics {

/// Values of a whole run in a bounded number of buckets: when they are full, neighbours are merged.
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t buckets) : most_(2 * buckets) {}
  void add(double value);
  /// At most `count` means in order of time.
  [[nodiscard]] std::vector<double> curve(std::size_t count) const;

 private:
  struct Bucket {
    double sum = 0;
    std::int64_t count = 0;
  };
  std::size_t most_;
  std::int64_t per_bucket_ = 1;
  std::vector<Bucket> buckets_;
};

/// Rates and time left from the last steps; the first step (warm-up of caches and allocator) is
/// left out as soon as there is another.
class Progress {
 public:
  void add(const engine::StepReport& report);
  [[nodiscard]] double rate_per_s() const;  // samples, or tokens when they are counted
  [[nodiscard]] double seconds_left() const;
  [[nodiscard]] double trained_s() const { return trained_s_; }
  [[nodiscard]] bool counts_tokens() const { return counts_tokens_; }
  [[nodiscard]] std::vector<double> loss_curve(std::size_t columns) const {
    return loss_.curve(columns);
  }

 private:
  struct Recent {
    double step_s = 0;
    double amount = 0;
  };
  std::deque<Recent> recent_;
  std::int64_t seen_ = 0;
  std::int64_t steps_left_ = 0;
  double trained_s_ = 0;
  bool counts_tokens_ = false;
  CurveHistory loss_{32};
};

}  // namespace lockstep::metrics
