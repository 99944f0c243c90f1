// Which blocks of a model a pipeline rank holds.
#pragma once
#include <cstddef>
#include <vector>

#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Consecutive blocks that are computed in one go: blocks [first, end) of ModelStats::blocks.
struct Piece {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// Pieces in the order of the model, pipeline x chunks of them: stage i holds i, i + pipeline, ...
/// Layers go by layers_of_pieces; blocks that are no layers go with the layer behind them, those
/// behind the last layer with it.
[[nodiscard]] std::vector<Piece> pieces_of(const model::ModelStats& model, const Layout& layout);

[[nodiscard]] std::int64_t layer_count(const model::ModelStats& model);

/// The embedding's matrix, when the last block multiplies by it too: the first and the last
/// pipeline stage each have a copy. Null without such a one.
[[nodiscard]] const model::ParameterStats* tied_parameter(const model::ModelStats& model);

}  // namespace lockstep::parallel
