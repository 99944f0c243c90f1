#include "lockstep/parallel/strategies/registry.h"

#include <array>

#include "lockstep/parallel/strategies/data_parallel.h"

namespace lockstep::parallel {
namespace {

constexpr auto kStrategies = std::to_array<Strategy>({
    {"data_parallel", apply_data_parallel},
});

}  // namespace

std::span<const Strategy> strategies() { return kStrategies; }

}  // namespace lockstep::parallel
