// Cost of batch normalisation over ranks: docs/strategies/data_parallel.md.
#pragma once
#include <vector>

#include "lockstep/parallel/cost/strategy_cost.h"

namespace lockstep::parallel {

[[nodiscard]] std::vector<Problem> check_sync_batch_norm(const Setting& setting);
/// Adds to what the strategies before it need.
void estimate_sync_batch_norm(const Setting& setting, ParallelPlan& plan);

}  // namespace lockstep::parallel
