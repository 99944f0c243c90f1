// A model as runs of equal blocks: 96 layers that are alike are priced once.
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/model/stats/model_stats.h"

namespace lockstep::parallel {

struct BlockRun {
  const model::BlockStats* block = nullptr;  // the first of them; lives as long as its ModelStats
  std::int64_t count = 0;
  // Parameters of one block, by who shares them.
  double whole = 0;
  double split = 0;    // over tensor ranks
  double experts = 0;  // over tensor and expert ranks
  double tables = 0;   // over Layout::tables; not exchanged as gradients are
};

[[nodiscard]] std::vector<BlockRun> block_runs(const model::ModelStats& model);

}  // namespace lockstep::parallel
