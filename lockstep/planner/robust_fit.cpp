#include "lockstep/planner/robust_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lockstep::planner {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;
using Errors = std::function<Vector(const Vector&)>;

constexpr double kScale = 1 / (kHuberBend * kRowDeviation);
constexpr double kNudge = 1e-4;   // for differences
constexpr double kLongest = 0.3;  // step of one unknown
constexpr int kSteps = 40;
constexpr int kDampings = 8;
constexpr double kNoGain = 1e-7;

/// Gaussian elimination with the largest pivot; `a` is square and regular.
Vector solve(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < n; ++row) {
      if (std::abs(a[row][i]) > std::abs(a[pivot][i])) pivot = row;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < n; ++column) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t column = i + 1; column < n; ++column) b[i] -= a[i][column] * b[column];
    b[i] /= a[i][i];
  }
  return b;
}

class Fit {
 public:
  Fit(const std::vector<FitPrior>& priors, const Errors& errors)
      : priors_(priors), errors_(errors) {
    for (const FitPrior& prior : priors) at_.push_back(prior.start);
    errors_here_ = errors_(at_);
    loss_ = loss(at_, errors_here_);
  }

  Vector run() {
    for (int step = 0; step < kSteps && improve(); ++step) {
    }
    return at_;
  }

 private:
  [[nodiscard]] double loss(const Vector& at, const Vector& errors) const {
    double sum = 0;
    for (const double error : errors) {
      const double size = std::abs(error);
      sum += kScale * (size < kHuberBend ? size * size / 2
                                         : kHuberBend * size - kHuberBend * kHuberBend / 2);
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double off = (at[i] - priors_[i].start) / priors_[i].deviation;
      sum += off * off / 2;
    }
    return sum;
  }

  [[nodiscard]] Matrix slopes() const {
    Matrix slopes;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      Vector nudged = at_;
      nudged[i] += kNudge;
      Vector column = errors_(nudged);
      for (std::size_t row = 0; row < column.size(); ++row) {
        column[row] = (column[row] - errors_here_[row]) / kNudge;
      }
      slopes.push_back(std::move(column));
    }
    return slopes;
  }

  /// One step downhill; false when there is none left.
  bool improve() {
    const Matrix slope = slopes();
    const std::size_t n = at_.size();
    Matrix curvature(n, Vector(n));
    Vector downhill(n);
    for (std::size_t row = 0; row < errors_here_.size(); ++row) {
      const double size = std::abs(errors_here_[row]);
      const double weight = kScale * (size < kHuberBend ? 1 : kHuberBend / size);
      for (std::size_t i = 0; i < n; ++i) {
        downhill[i] -= weight * slope[i][row] * errors_here_[row];
        for (std::size_t j = 0; j < n; ++j) {
          curvature[i][j] += weight * slope[i][row] * slope[j][row];
        }
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double stiffness = 1 / (priors_[i].deviation * priors_[i].deviation);
      downhill[i] -= stiffness * (at_[i] - priors_[i].start);
      curvature[i][i] += stiffness;
    }
    return take_step(curvature, downhill);
  }

  bool take_step(const Matrix& curvature, const Vector& downhill) {
    for (int attempt = 0; attempt < kDampings; ++attempt) {
      Matrix damped = curvature;
      for (std::size_t i = 0; i < damped.size(); ++i) damped[i][i] *= 1 + damping_;
      const Vector step = solve(std::move(damped), downhill);
      Vector next = at_;
      for (std::size_t i = 0; i < next.size(); ++i) {
        next[i] += std::clamp(step[i], -kLongest, kLongest);
      }
      Vector errors = errors_(next);
      const double reached = loss(next, errors);
      if (reached < loss_) {
        const double gain = loss_ - reached;
        at_ = std::move(next);
        errors_here_ = std::move(errors);
        loss_ = reached;
        damping_ = std::max(damping_ / 5, 1e-9);
        return gain > kNoGain;
      }
      damping_ = std::max(damping_, 1e-6) * 5;
    }
    return false;
  }

  const std::vector<FitPrior>& priors_;
  const Errors& errors_;
  Vector at_;
  Vector errors_here_;
  double loss_ = 0;
  double damping_ = 1e-3;
};

}  // namespace

std::vector<double> robust_fit(const std::vector<FitPrior>& priors,
                               const std::function<Vector(const Vector&)>& errors) {
  return Fit(priors, errors).run();
}

}  // namespace lockstep::planner
