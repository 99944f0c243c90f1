// Seconds that all micro-batches of a step take to go through a pipeline, without its simulation.
#pragma once
#include <vector>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Of one stage and one micro-batch, all its chunks together, handing over included.
struct PassTime {
  double forward_s = 0;
  double backward_s = 0;
  [[nodiscard]] double both_s() const { return forward_s + backward_s; }
};

/// From the first forward to the last backward. With equal stages micro-batches + (p - 1) / v times
/// a stage's (Narayanan et al. 2021, arXiv:2104.04473, section 2.2). Else the stage counts that
/// keeps the others waiting longest: 1F1B passes those before it once, forward and back, and waits
/// for those behind it as long as its own micro-batches in flight do not fill the time.
[[nodiscard]] double pipeline_time(const std::vector<PassTime>& stages, const Layout& layout);

}  // namespace lockstep::parallel
