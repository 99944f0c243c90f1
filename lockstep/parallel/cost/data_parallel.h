// Cost of data parallelism. Each formula stands in docs/strategies/data_parallel.md.
#pragma once
#include <vector>

#include "lockstep/parallel/cost/strategy_cost.h"

namespace lockstep::parallel {

/// Resident bytes of a lockstep-worker beside all tensors, measured on Debian 12, x86-64, with
/// LibTorch 2.11: libraries, the loaded program and compiled kernels.
inline constexpr std::int64_t kWorkerRuntimeBytes = 135'000'000;

[[nodiscard]] std::vector<Problem> check_data_parallel(const Setting& setting);
void estimate_data_parallel(const Setting& setting, ParallelPlan& plan);

}  // namespace lockstep::parallel
