// Numbers of the time model from published runs: a fit that no single row can bend.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/parallel/cost/step_time.h"
#include "lockstep/planner/published_runs.h"

namespace lockstep::planner {

/// One run with what was measured, ready to be priced ten thousand times.
struct TimedRun {
  PublishedRun run;
  double measured_s = 0;
  std::shared_ptr<const model::ModelStats> stats;
  std::vector<parallel::BlockRun> runs;  // of *stats
};

/// Rows with a time that can be predicted.
[[nodiscard]] std::vector<TimedRun> timed_runs(const std::vector<PublishedRow>& rows);

/// Everything that a fit may move, with the tables' values to begin with.
struct TimeNumbers {
  std::vector<DeviceModel> devices;
  std::vector<parallel::SoftwareStack> stacks;
  parallel::TimeConstants constants;
  double network_efficiency = 0;  // of InfiniBand and the like
  double tofu_efficiency = 0;

  [[nodiscard]] static TimeNumbers of_tables();
  [[nodiscard]] const DeviceModel& device(std::string_view name) const;
  [[nodiscard]] const parallel::SoftwareStack& stack(std::string_view name) const;
};

/// Fits the numbers to the runs. Pure and deterministic: Gauss-Newton over logarithms with Huber's
/// loss (Huber 1964: beyond 1 % a row pulls with the same force, however far off it is), and a
/// prior that says how far each number may be believed to lie from where it begins. A stack of
/// fewer than three runs keeps its constant at 1.
[[nodiscard]] TimeNumbers calibrate(const std::vector<TimedRun>& runs);

[[nodiscard]] double predicted_s(const TimedRun& run, const TimeNumbers& numbers);

/// Name and value of what calibrate moves, for tables.
[[nodiscard]] std::vector<std::pair<std::string, double>> fitted_numbers(
    const TimeNumbers& numbers);

}  // namespace lockstep::planner
