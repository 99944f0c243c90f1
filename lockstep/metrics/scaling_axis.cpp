#include "lockstep/metrics/scaling_axis.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::metrics {
namespace {

constexpr double kMostLinear = 8;
constexpr double kClear = 0.08;  // of the axis

// The least of 1, 2, 5, 10, 20, ... (and 0.5) that cuts `span` into at most `count` parts.
double round_step(double span, int count) {
  for (double decade = 0.1;; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (decade * factor * count >= span) return decade * factor;
    }
  }
}

}  // namespace

ScalingAxis::ScalingAxis(const std::vector<ScalingRow>& rows) {
  LOCKSTEP_CHECK(!rows.empty(), "a scaling plot without rows");
  first_rank_ = rows.front().ranks;
  last_rank_ = rows.back().ranks;
  is_doubling_ = last_rank_ > kMostLinear * first_rank_;
  low_ = is_doubling_ ? first_rank_ : 0;
  high_ = last_rank_;
  for (const ScalingRow& row : rows) {
    if (!std::isfinite(row.speedup)) continue;
    high_ = std::max(high_, row.speedup);
    if (is_doubling_ && row.speedup > 0) low_ = std::min(low_, row.speedup);
  }
  if (is_doubling_) low_ *= 0.7;  // the first point stands clear of the axis
  // Ranks begin at the smallest count, a little clear of the axis.
  if (!is_doubling_) first_rank_ -= kClear * std::max(1.0, last_rank_ - first_rank_);
}

double ScalingAxis::share(double value, double from, double to) const {
  if (!std::isfinite(value) || to <= from) return 0;
  const double part = is_doubling_ ? std::log2(std::max(value, from) / from) / std::log2(to / from)
                                   : (value - from) / (to - from);
  return std::clamp(part, 0.0, 1.0);
}

std::vector<double> ScalingAxis::y_ticks(int count) const {
  std::vector<double> ticks;
  if (is_doubling_) {
    for (double tick = std::exp2(std::ceil(std::log2(low_))); tick <= high_; tick *= 2) {
      ticks.push_back(tick);
    }
  } else {
    const double step = round_step(high_, count);
    for (int i = 0; i * step <= high_ * (1 + 1e-9); ++i) ticks.push_back(i * step);
  }
  return ticks;
}

std::string tick_text(double tick) {
  const bool is_whole = tick == std::floor(tick);
  return format_fixed(tick, is_whole ? 0 : 1);
}

}  // namespace lockstep::metrics
