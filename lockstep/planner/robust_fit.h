// Least squares that a wrong measurement cannot bend.
#pragma once
#include <functional>
#include <vector>

namespace lockstep::planner {

/// What is believed of an unknown before anything is measured.
struct FitPrior {
  double start = 0;
  double deviation = 1;
};

/// The unknowns that make `errors` small: Huber's loss (quadratic below kHuberBend, linear beyond)
/// plus the priors, by Gauss-Newton steps with weights and Levenberg's damping. The same input
/// gives the same bits. \param errors of all measurements at given unknowns, as differences of
/// logarithms.
[[nodiscard]] std::vector<double> robust_fit(
    const std::vector<FitPrior>& priors,
    const std::function<std::vector<double>(const std::vector<double>&)>& errors);

inline constexpr double kHuberBend = 0.01;
/// How far off an honest row may be: what a prior's deviation is weighed against.
inline constexpr double kRowDeviation = 0.04;

}  // namespace lockstep::planner
