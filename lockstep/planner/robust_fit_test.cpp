#include "lockstep/planner/robust_fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::planner {
namespace {

/// Points on a line, one of them far off.
std::vector<double> line_errors(const std::vector<double>& unknowns, double off) {
  std::vector<double> errors;
  for (int x = 0; x < 11; ++x) {
    const double measured = 2 + 0.5 * x + (x == 7 ? off : 0);
    errors.push_back(unknowns[0] + unknowns[1] * x - measured);
  }
  return errors;
}

TEST(RobustFit, FindsTheLineAndIsNotBentByOnePoint) {
  const std::vector<FitPrior> priors{{0, 10}, {0, 10}};
  const auto fit = [&](double off) {
    return robust_fit(priors, [&](const auto& unknowns) { return line_errors(unknowns, off); });
  };
  const std::vector<double> clean = fit(0);
  EXPECT_NEAR(clean[0], 2, 1e-3);
  EXPECT_NEAR(clean[1], 0.5, 1e-3);
  const std::vector<double> bent = fit(1);
  EXPECT_NEAR(bent[0] + 7 * bent[1], 5.5, 0.01)
      << "1 at the point, at most a hundredth at the line";
  EXPECT_EQ(fit(1), bent) << "the same bits";
}

TEST(RobustFit, KeepsWhatNothingMeasures) {
  const std::vector<double> fitted =
      robust_fit({{3, 0.1}, {1, 1}}, [](const auto& at) { return std::vector{at[1] - 5}; });
  EXPECT_DOUBLE_EQ(fitted[0], 3);
  EXPECT_NEAR(fitted[1], 5, 0.1);
}

}  // namespace
}  // namespace lockstep::planner
