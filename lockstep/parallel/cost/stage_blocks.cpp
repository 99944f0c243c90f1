#include "lockstep/parallel/cost/stage_blocks.h"

#include <algorithm>

#include "lockstep/parallel/plan/pipeline_pieces.h"

namespace lockstep::parallel {
namespace {

bool multiplies_by(const model::BlockStats& block, const model::ParameterStats& parameter) {
  const auto rows = static_cast<double>(parameter.shape.front());
  return std::any_of(block.operators.begin(), block.operators.end(), [&](const auto& op) {
    return op.kind == model::OperatorKind::product && op.n == rows && op.weight_elements > 0;
  });
}

bool has_vocabulary(const model::BlockStats& block) {
  return std::any_of(block.parameters.begin(), block.parameters.end(),
                     [](const auto& parameter) { return parameter.split == model::Split::vocab; });
}

}  // namespace

std::int64_t layer_count(const model::ModelStats& model) {
  return std::count_if(model.blocks.begin(), model.blocks.end(),
                       [](const model::BlockStats& block) { return block.is_layer; });
}

std::vector<Piece> pieces_of(const model::ModelStats& model, const Layout& layout) {
  const std::vector<std::int64_t> counts = layers_of_pieces(layer_count(model), layout);
  std::vector<Piece> pieces;
  std::size_t block = 0;
  for (const std::int64_t count : counts) {
    Piece piece{block, block};
    for (std::int64_t layers = 0; layers < count && block < model.blocks.size(); ++block) {
      layers += model.blocks[block].is_layer ? 1 : 0;
    }
    piece.end = block;
    pieces.push_back(piece);
  }
  if (!pieces.empty()) pieces.back().end = model.blocks.size();
  return pieces;
}

const model::ParameterStats* tied_parameter(const model::ModelStats& model) {
  if (model.blocks.size() < 2 || has_vocabulary(model.blocks.back())) return nullptr;
  for (const model::ParameterStats& parameter : model.blocks.front().parameters) {
    if (parameter.split == model::Split::vocab && multiplies_by(model.blocks.back(), parameter)) {
      return &parameter;
    }
  }
  return nullptr;
}

}  // namespace lockstep::parallel
