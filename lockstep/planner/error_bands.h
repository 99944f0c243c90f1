// How far a plan for named devices may be off, by what of its kind was measured:
// docs/validation.md.
#pragma once
#include <string>

#include "lockstep/planner/cluster_plan.h"

namespace lockstep::planner {

/// Relative; 0.1 = give or take 10 %.
struct ErrorBand {
  double share = 0;  // 0 = nothing of this kind was measured
  std::string because;
};

// Largest errors of docs/validation.md and docs/planning.md, rounded up to a per cent; tests/
// validation holds them against what they are.
inline constexpr double kSourceLeftOut = 0.10;   // of a run whose source no number was fitted to
inline constexpr double kDeviceLeftOut = 0.31;   // nor any other run of its device
inline constexpr double kNetworkUnknown = 0.27;  // llm-foundry's and IBM's runs without a network
inline constexpr double kMeasuredMemory = 0.15;  // of 23 layouts

[[nodiscard]] ErrorBand time_band(const ClusterJob& job);
[[nodiscard]] ErrorBand memory_band(const ClusterJob& job);

}  // namespace lockstep::planner
