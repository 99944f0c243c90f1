// Training runs of one machine beside their plans: tests/validation/machine_runs.csv, which
// benchmarks/validate_plans.py writes, as values and as a part of docs/validation.md.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::planner {

/// Planned, or measured.
struct RunCost {
  parallel::MemoryPlan memory;
  std::int64_t comm_bytes = 0;  // a rank and step
  double step_s = 0;
};

struct MachineRun {
  std::string name;
  std::string cpu;
  int cores = 0;
  int ranks = 1;
  config::RunConfig config;
  RunCost planned;
  RunCost measured;
};

/// \throws BadData with the row that cannot be read.
[[nodiscard]] std::vector<MachineRun> read_machine_runs(std::string_view csv);

/// Categories outside their bar (plan_bars.h): "runtime planned 200 MB, measured 300 MB"; empty = none.
[[nodiscard]] std::string outside_memory_bar(const MachineRun& run);

/// One row a run, and the errors of all, as Markdown.
[[nodiscard]] std::string machine_validation(const std::vector<MachineRun>& runs);

}  // namespace lockstep::planner
