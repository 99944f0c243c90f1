// Seconds of a training step of our own worker on this machine's cores, operator by operator, from
// what `bench kernels` measured: the rates of the host, or those of a typical core.
#pragma once
#include "lockstep/parallel/cost/strategy_cost.h"
#include "lockstep/topology/kernel_rates.h"

namespace lockstep::parallel {

struct RunTime {
  double forward_s = 0;   // of all micro-batches of a rank
  double backward_s = 0;  // gradients on their way into the buckets included
  double optimizer_s = 0;
};

/// \param flat_elements of all parameters, as the optimizer sees them.
[[nodiscard]] RunTime run_time(const Setting& setting, const ParallelPlan& plan,
                               double flat_elements);

/// An all_reduce of `bytes` by all ranks of the plan, which take turns where they outnumber cores.
[[nodiscard]] double exchange_time(const Setting& setting, double bytes);

}  // namespace lockstep::parallel
