// Data parallelism: every rank holds the whole model and computes its leaves of the global batch.
#pragma once
#include "lockstep/parallel/strategy.h"

namespace lockstep::parallel {

/// Adds the replica: flat parameters, bucketed reduction over groups.data, one update kernel.
/// Collective. Method and formulas: docs/strategies/data_parallel.md.
void apply_data_parallel(const BuildSetting& setting, SessionParts& parts);

}  // namespace lockstep::parallel
