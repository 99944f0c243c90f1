// The layouts that a search looks at, each with its time and the least memory it can take.
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/planner/search.h"

namespace lockstep::planner {

struct Candidate {
  parallel::Layout layout;
  double step_s = 0;
  double state_bytes = 0;  // at least, of the fullest stage
  double least_bytes = 0;  // and what its layers keep
};

/// How far a search goes; the next step is taken where nothing fits.
enum class Reach : std::uint8_t {
  near,  // tensor ranks inside a host; the optimizer may be in the host's memory
  host,  // parameters too
  far,   // states on disks, tensor ranks across hosts
};

struct SearchSpace {
  std::vector<Candidate> candidates;        // that may fit, quickest first
  std::vector<Candidate> too_large;         // least_bytes is more than a device has
  std::vector<RejectedLayouts> impossible;  // degrees that do not divide
};

/// \pre the job has a machine of limits.devices devices.
[[nodiscard]] SearchSpace search_space(const ClusterJob& job, const SearchLimits& limits,
                                       Reach reach);

/// Degrees above 1 and everything else that has to be switched on.
[[nodiscard]] int parts_of(const parallel::Layout& layout);

}  // namespace lockstep::planner
