// How many steps a run has.
#pragma once
#include <cstdint>

#include "lockstep/config/run_config.h"

namespace lockstep::config {

/// Every sample once; the last step may have fewer.
[[nodiscard]] std::int64_t steps_per_epoch(std::int64_t samples, std::int64_t global_batch);

/// [run] steps or epochs, what ends first; one epoch when neither is set.
[[nodiscard]] std::int64_t total_steps(const RunSection& run, std::int64_t steps_per_epoch);

}  // namespace lockstep::config
