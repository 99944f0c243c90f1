// Where to cut layers into pipeline stages so that the slowest takes as little as can be.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::planner {

/// Seconds of a micro-batch, in the order of the model.
struct LayerCosts {
  std::vector<double> layers;
  double before = 0;  // of blocks that the first stage has beside its layers: the embedding
  double behind = 0;  // of the last one's: the head, the loss
};

/// Layers of each stage, at least one, by dynamic programming over stages and layers. Where several
/// are equally good, early stages get fewer: they hold more micro-batches.
/// \pre 1 <= stages <= layers.
[[nodiscard]] std::vector<std::int64_t> balanced_cuts(const LayerCosts& costs, int stages);

/// What the slowest stage takes under these cuts.
[[nodiscard]] double slowest_stage(const LayerCosts& costs, const std::vector<std::int64_t>& cuts);

}  // namespace lockstep::planner
