#include "lockstep/config/run_length.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/saturated.h"

namespace lockstep::config {

std::int64_t steps_per_epoch(std::int64_t samples, std::int64_t global_batch) {
  return samples / global_batch + (samples % global_batch > 0 ? 1 : 0);
}

std::int64_t total_steps(const RunSection& run, std::int64_t steps_per_epoch) {
  std::int64_t steps = run.steps.value_or(std::numeric_limits<std::int64_t>::max());
  if (run.epochs.has_value() || !run.steps.has_value()) {
    const double epochs = run.epochs.value_or(1.0);
    // A third of 3 steps is 1 step, whatever binary fractions say.
    const double in_epochs = std::ceil(epochs * static_cast<double>(steps_per_epoch) - 1e-9);
    steps = std::min(steps, Saturated::of(in_epochs).value());
  }
  return steps;
}

}  // namespace lockstep::config
