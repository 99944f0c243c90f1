#include "lockstep/planner/goodput.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::planner {
namespace {

/// Without cost, a checkpoint after every step is best; a step has no length here.
constexpr double kLeastInterval = 1;

double exact_share(const GoodputQuestion& question, double interval_s) {
  const double rate = question.failures_per_s();
  const double tries = std::expm1((interval_s + question.checkpoint_s) * rate);
  return interval_s * rate / (std::exp(question.restart_s * rate) * tries);
}

}  // namespace

double GoodputQuestion::failures_per_s() const { return static_cast<double>(units) / unit_mtbf_s; }

Goodput goodput(const GoodputQuestion& question) {
  const double rate = question.failures_per_s();
  Goodput answer;
  answer.failures_a_day = rate * 86400;
  answer.best_interval_s = std::max(kLeastInterval, std::sqrt(2 * question.checkpoint_s / rate));
  answer.interval_s = question.interval_s > 0 ? question.interval_s : answer.best_interval_s;
  const double lost = question.checkpoint_s / answer.interval_s +
                      rate * (answer.interval_s / 2 + question.restart_s);
  answer.share = std::max(0.0, 1 - lost);
  answer.exact_share = exact_share(question, answer.interval_s);
  return answer;
}

double expected_s(const Goodput& goodput, double ideal_s) {
  if (!(goodput.exact_share > 0)) return std::numeric_limits<double>::infinity();
  return ideal_s / goodput.exact_share;
}

}  // namespace lockstep::planner
