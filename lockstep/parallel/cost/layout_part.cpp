#include "lockstep/parallel/cost/layout_part.h"

#include <algorithm>

namespace lockstep::parallel {

std::span<const LayoutPart> layout_parts() {
  static const std::vector<LayoutPart> parts{data_part(),     zero_part(),      tensor_part(),
                                             pipeline_part(), expert_part(),    context_part(),
                                             tables_part(),   recompute_part(), offload_part()};
  return parts;
}

bool has_operator(const model::ModelStats& model, model::OperatorKind kind) {
  return std::any_of(model.blocks.begin(), model.blocks.end(), [&](const auto& block) {
    return std::any_of(block.operators.begin(), block.operators.end(),
                       [&](const auto& op) { return op.kind == kind; });
  });
}

bool has_layers(const model::ModelStats& model) {
  return std::any_of(model.blocks.begin(), model.blocks.end(),
                     [](const auto& block) { return block.is_layer; });
}

double table_parameters(const model::ModelStats& model) {
  double sum = 0;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      if (parameter.is_table) sum += static_cast<double>(parameter.count());
    }
  }
  return sum;
}

Shares shares_of(const Layout& layout) {
  Shares shares;
  for (const LayoutPart& part : layout_parts()) {
    if (part.share != nullptr) part.share(layout, shares);
  }
  return shares;
}

}  // namespace lockstep::parallel
