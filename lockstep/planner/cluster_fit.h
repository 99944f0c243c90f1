// What to change where a plan does not fit: other layouts, more devices, offloading. Pure
// functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/planner/cluster_plan.h"

namespace lockstep::planner {

struct WayToFit {
  std::string flags;  // to add or change: "--gpus 4 --zero 3"
  std::int64_t devices = 0;
  std::int64_t total_bytes = 0;  // of a device then
};

struct FitAdvice {
  /// The fewest devices whose memory holds parameters, gradients and optimizer, all of them shared.
  std::int64_t devices_for_states = 0;
  std::vector<WayToFit> ways;  // at most five, the least change first; all of them fit
};

/// \pre the device is known.
[[nodiscard]] FitAdvice ways_to_fit(const ClusterJob& job);

}  // namespace lockstep::planner
