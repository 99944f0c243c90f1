// RunConfig + ModelStats + Cluster -> ParallelPlan. Pure functions.
#pragma once
#include "lockstep/config/run_config.h"
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::planner {

/// The plan of `config` on `world_size` ranks of `host`; with batch.micro_batch = "auto" the first
/// of batch_cuts().
/// \param data_bytes what the data sets take in each rank's memory (data::DataSize).
/// \throws UsageError with every problem of batch, model and strategy.
[[nodiscard]] parallel::ParallelPlan make_plan(const config::RunConfig& config, const Host& host,
                                               int world_size, std::int64_t data_bytes);

}  // namespace lockstep::planner
