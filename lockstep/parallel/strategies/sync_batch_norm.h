// Batch normalisation over ranks as a strategy.
#pragma once
#include "lockstep/parallel/strategy.h"

namespace lockstep::parallel {

/// Collective steps from then on: statistics go over groups.statistics. Nothing to do with one
/// rank.
void apply_sync_batch_norm(const BuildSetting& setting, SessionParts& parts);

}  // namespace lockstep::parallel
