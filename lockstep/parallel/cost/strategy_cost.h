// The torch-free half of a strategy: can it run here, and what would it cost. One file per
// strategy; registry.cpp lists them. The other half (do it) is parallel/strategies.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::parallel {

/// All a strategy may look at before anything is built.
struct Setting {
  const config::RunConfig& config;
  const model::ModelStats& model;
  const Host& host;
  int world_size = 1;
  std::int64_t data_bytes = 0;  // of the data sets that each rank holds in memory
};

/// One row: pure functions.
struct StrategyCost {
  std::string_view name;     // "data_parallel"
  std::string_view summary;  // one line for help and docs
  /// Every reason why it cannot run here; empty = it can.
  std::vector<Problem> (*check)(const Setting& setting);
  /// Fills the plan's memory, bytes and seconds for a plan whose layout is settled.
  void (*estimate)(const Setting& setting, ParallelPlan& plan);
};

[[nodiscard]] std::span<const StrategyCost> strategy_costs();

}  // namespace lockstep::parallel
