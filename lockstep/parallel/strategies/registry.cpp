#include "lockstep/parallel/strategies/registry.h"

#include <array>

#include "lockstep/parallel/strategies/data_parallel.h"
#include "lockstep/parallel/strategies/sync_batch_norm.h"

namespace lockstep::parallel {
namespace {

constexpr auto kStrategies = std::to_array<Strategy>({
    {"data_parallel", apply_data_parallel},
    {"sync_batch_norm", apply_sync_batch_norm},
});

}  // namespace

std::span<const Strategy> strategies() { return kStrategies; }

}  // namespace lockstep::parallel
