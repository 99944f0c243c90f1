// The categories of a memory plan as a table: what JSON, console and report loop over.
#pragma once
#include <array>
#include <cstdint>

#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::engine {

struct MemoryRow {
  const char* category;  // as in docs/cli.md
  std::int64_t parallel::MemoryPlan::*bytes;
};

inline constexpr auto kMemoryRows = std::to_array<MemoryRow>({
    {"parameters", &parallel::MemoryPlan::parameters},
    {"gradients", &parallel::MemoryPlan::gradients},
    {"optimizer", &parallel::MemoryPlan::optimizer},
    {"activations", &parallel::MemoryPlan::activations},
    {"buffers", &parallel::MemoryPlan::buffers},
    {"communication", &parallel::MemoryPlan::communication},
    {"runtime", &parallel::MemoryPlan::runtime},
});

}  // namespace lockstep::engine
