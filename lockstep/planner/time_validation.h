// How far the time model is off, as tables in Markdown: the time part of docs/validation.md.
#pragma once
#include <string>
#include <vector>

#include "lockstep/planner/calibration.h"

namespace lockstep::planner {

/// Absolute errors of some runs, 0.03 = 3 %.
struct ErrorSummary {
  int rows = 0;
  double mean = 0;
  double most = 0;
  std::string worst;  // whose the last one is
};

/// Predicted over measured, minus 1.
[[nodiscard]] double error_of(const TimedRun& timed, const TimeNumbers& numbers);
[[nodiscard]] ErrorSummary summary_of(const std::vector<TimedRun>& runs,
                                      const TimeNumbers& numbers);

/// A source and how well its runs are predicted from numbers that never saw it. Runs whose device
/// has no other source are not among them.
struct LeftOutSource {
  std::string source;
  ErrorSummary errors;
};
[[nodiscard]] std::vector<LeftOutSource> leave_each_source_out(const std::vector<TimedRun>& runs);

/// A kind of device and how well its runs are predicted with nothing fitted to it: as devices
/// without published runs are, by the efficiency of the nearest one that has some.
[[nodiscard]] std::vector<LeftOutSource> leave_each_device_out(const std::vector<TimedRun>& runs);

/// The run whose own prediction moves most when its measurement is multiplied by `factor` and
/// everything is fitted anew.
struct MovedMost {
  std::string id;
  double moved = 0;  // predicted then over predicted now, minus 1
};
[[nodiscard]] MovedMost perturb_each(const std::vector<TimedRun>& runs, double factor);

/// Rows with the numbers of the tables; sources left out and rows perturbed with new fits.
[[nodiscard]] std::string time_validation(const std::vector<TimedRun>& runs);

/// Rows alone, for runs that no number was fitted to.
[[nodiscard]] std::string time_table(const std::vector<TimedRun>& runs);

}  // namespace lockstep::planner
