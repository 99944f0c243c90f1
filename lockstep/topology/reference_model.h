// The small models whose whole steps are timed beside their operators (Kernel::gpt_step,
// resnet_step): what an operator takes in a step is not what it takes by itself, and how much more
// is the machine's.
#pragma once
#include "lockstep/config/run_config.h"
#include "lockstep/topology/kernel_rates.h"

namespace lockstep {

/// The training of one rank that is timed. \pre `kernel` is one of the two.
[[nodiscard]] config::RunConfig reference_config(Kernel kernel, config::Dtype type);

/// Whether a point is a whole step and not an operator.
[[nodiscard]] constexpr bool is_step(Kernel kernel) { return kernel >= Kernel::step; }

}  // namespace lockstep
