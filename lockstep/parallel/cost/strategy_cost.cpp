#include "lockstep/parallel/cost/strategy_cost.h"

#include <array>

#include "lockstep/parallel/cost/data_parallel.h"
#include "lockstep/parallel/cost/sync_batch_norm.h"

namespace lockstep::parallel {
namespace {

constexpr auto kStrategies = std::to_array<StrategyCost>({
    {"data_parallel", "every rank holds the whole model and computes its part of the batch",
     check_data_parallel, estimate_data_parallel},
    {"sync_batch_norm", "batch normalisation over the samples of all ranks", check_sync_batch_norm,
     estimate_sync_batch_norm},
});

}  // namespace

std::span<const StrategyCost> strategy_costs() { return kStrategies; }

}  // namespace lockstep::parallel
