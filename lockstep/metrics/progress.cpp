#include "lockstep/metrics/progress.h"

#include <algorithm>
#include <cmath>

namespace lockstep::metrics {
namespace {

constexpr std::size_t kRecentSteps = 50;

}  // namespace

void CurveHistory::add(double value) {
  if (buckets_.empty() || buckets_.back().count >= per_bucket_) buckets_.emplace_back();
  buckets_.back().sum += value;
  ++buckets_.back().count;
  if (buckets_.size() < most_ || buckets_.back().count < per_bucket_) return;
  for (std::size_t i = 0; i + 1 < buckets_.size(); i += 2) {
    buckets_[i / 2] = {buckets_[i].sum + buckets_[i + 1].sum,
                       buckets_[i].count + buckets_[i + 1].count};
  }
  buckets_.resize(buckets_.size() / 2);
  per_bucket_ *= 2;
}

std::vector<double> CurveHistory::curve(std::size_t count) const {
  const std::size_t points = std::min(count, buckets_.size());
  std::vector<double> means;
  for (std::size_t p = 0; p < points; ++p) {
    Bucket merged;
    for (std::size_t i = p * buckets_.size() / points; i < (p + 1) * buckets_.size() / points;
         ++i) {
      merged.sum += buckets_[i].sum;
      merged.count += buckets_[i].count;
    }
    means.push_back(merged.sum / static_cast<double>(merged.count));
  }
  return means;
}

void Progress::add(const engine::StepReport& report) {
  if (seen_ == 1) recent_.clear();
  ++seen_;
  counts_tokens_ = report.tokens > 0;
  const auto amount = static_cast<double>(counts_tokens_ ? report.tokens : report.samples);
  recent_.push_back({report.times.step_s, amount});
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  trained_s_ += report.times.step_s;
  steps_left_ = std::max<std::int64_t>(0, report.total_steps - report.step);
  loss_.add(report.loss);
}

double Progress::rate_per_s() const {
  Recent sum;
  for (const Recent& step : recent_) {
    sum.step_s += step.step_s;
    sum.amount += step.amount;
  }
  return sum.step_s > 0 ? sum.amount / sum.step_s : 0;
}

double Progress::seconds_left() const {
  if (recent_.empty()) return NAN;
  double sum_s = 0;
  for (const Recent& step : recent_) sum_s += step.step_s;
  return static_cast<double>(steps_left_) * sum_s / static_cast<double>(recent_.size());
}

}  // namespace lockstep::metrics
