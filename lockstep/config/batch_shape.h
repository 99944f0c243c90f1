// The three batch numbers settled for a world size: any two of run.toml's give the third.
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"

namespace lockstep::config {

/// global_batch = micro_batch x accumulation x data_ranks; leaves = global_batch / micro_batch.
struct BatchShape {
  std::int64_t global_batch = 0;  // samples a step
  std::int64_t micro_batch = 0;   // samples a forward
  std::int64_t accumulation = 1;  // forwards a rank and step
  int data_ranks = 1;
  std::int64_t leaves = 1;  // virtual ranks V; leaf v is cut v of the global batch
  bool ordered = false;     // virtual_ranks was set: sums follow the fixed tree

  [[nodiscard]] std::int64_t leaves_per_rank() const { return leaves / data_ranks; }
};

/// Steps whose batches a rank holds: the one at hand, and those that workers make ahead.
[[nodiscard]] inline std::int64_t steps_held(const DataSection& data) {
  return data.workers == 0 ? 1 : std::int64_t{data.prefetch} + 1;
}

struct BatchShapeResult {
  BatchShape shape;
  std::vector<Problem> problems;  // empty when `shape` is usable
};

/// Settles the batch for `world_size` ranks (all data parallel). Problems name the nearest valid
/// numbers: a batch that does not divide, unequal numbers, virtual_ranks not a power of two, not
/// divisible by the ranks, or not equal to global_batch / micro_batch, threads != 1 with
/// virtual_ranks. Only global_batch set: accumulation 1 (or leaves / ranks with virtual_ranks).
/// Only micro_batch: accumulation 1. None set: micro_batch 32. A micro-batch that is to be found
/// ("auto") comes as the largest there can be, of accumulation 1; without a global_batch, with an
/// accumulation or with virtual_ranks it is a problem (LS-1019).
[[nodiscard]] BatchShapeResult settle_batch(const RunConfig& config, int world_size);

}  // namespace lockstep::config
