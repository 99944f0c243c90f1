#include "lockstep/parallel/cost/states.h"

#include <algorithm>
#include <cmath>

#include "lockstep/parallel/cost/stage_blocks.h"

namespace lockstep::parallel {
namespace {

double at_least_one(std::int64_t ranks) {
  return static_cast<double>(std::max<std::int64_t>(1, ranks));
}

void add(const model::ParameterStats& parameter, const Layout& layout, DeviceParameters& sum) {
  const double elements = elements_on_device(parameter, layout);
  if (parameter.is_table) {
    sum.table += elements;
    sum.table_rows += elements / static_cast<double>(parameter.shape.back());
    return;
  }
  (parameter.of_experts ? sum.expert : sum.dense) += elements;
}

/// Ranks that states are spread over, among those with the same parameters.
double state_ranks(const Layout& layout, bool of_experts) {
  const std::int64_t replicas = layout.replicas() / (of_experts ? layout.expert : 1);
  if (layout.shard == 0) return at_least_one(replicas);
  return at_least_one(std::min<std::int64_t>(layout.shard, replicas));
}

/// Puts `bytes` where `offload` says; `on_device` is their place if it says nothing.
void place(double bytes, Offload offload, double& on_device, StateBytes& states) {
  switch (offload) {
    case Offload::none:
      on_device += bytes;
      return;
    case Offload::cpu:
      states.host += bytes;
      return;
    case Offload::nvme:
      states.nvme += bytes;
      return;
  }
}

void add_states(double parameters, double ranks, const Layout& layout,
                const PrecisionRecipe& recipe, StateBytes& states) {
  const auto spread = [&](double bytes, int from_stage) {
    return layout.zero >= from_stage ? parameters * bytes / ranks : parameters * bytes;
  };
  place(spread(recipe.weights, 3), layout.offload_parameters, states.parameters, states);
  if (layout.secondary_shard > 0) {
    states.parameters += parameters * recipe.compute / at_least_one(layout.secondary_shard);
  }
  const Offload optimizer = layout.offload_optimizer;
  const Offload gradients = layout.reduces_often() ? optimizer : Offload::none;
  const double own = layout.reduces_often() ? 1 / ranks : 1;
  place(parameters * own * recipe.gradients, gradients, states.gradients, states);
  place(spread(recipe.main_gradients, 1), optimizer, states.gradients, states);
  place(spread(recipe.masters, 1), optimizer, states.masters, states);
  place(spread(recipe.moments, 1), optimizer, states.moments, states);
}

}  // namespace

double elements_on_device(const model::ParameterStats& parameter, const Layout& layout) {
  auto elements = static_cast<double>(parameter.count());
  if (parameter.is_table) {
    const auto rows = static_cast<double>(parameter.shape.front());
    return elements / rows * std::ceil(rows / at_least_one(layout.tables));
  }
  if (parameter.split == model::Split::vocab) {  // its rows need not be divisible
    const auto rows = static_cast<double>(parameter.shape.front());
    return elements / rows * std::ceil(rows / at_least_one(layout.tensor));
  }
  if (parameter.split != model::Split::none) elements /= at_least_one(layout.tensor);
  if (parameter.of_experts) elements /= at_least_one(layout.expert);
  return elements;
}

DeviceParameters parameters_of_stage(const model::ModelStats& model, const Layout& layout,
                                     int stage) {
  DeviceParameters sum;
  const std::vector<Piece> pieces = pieces_of(model, layout);
  const auto stages = static_cast<std::size_t>(std::max(1, layout.pipeline));
  for (auto i = static_cast<std::size_t>(stage); i < pieces.size(); i += stages) {
    for (std::size_t block = pieces[i].first; block < pieces[i].end; ++block) {
      for (const model::ParameterStats& parameter : model.blocks[block].parameters) {
        add(parameter, layout, sum);
      }
    }
  }
  const model::ParameterStats* tied = tied_parameter(model);
  const bool is_last = stage == layout.pipeline - 1;
  if (tied != nullptr && is_last && stage > 0) add(*tied, layout, sum);
  return sum;
}

StateBytes state_bytes(const DeviceParameters& parameters, const Layout& layout,
                       const PrecisionRecipe& recipe) {
  StateBytes states;
  add_states(parameters.dense, state_ranks(layout, false), layout, recipe, states);
  add_states(parameters.expert, state_ranks(layout, true), layout, recipe, states);
  // TorchRec with FBGEMM's kernels: fp32 rows, changed in backward by row-wise Adagrad, which keeps
  // one number a row (docs.pytorch.org/torchrec: EmbOptimType.EXACT_ROWWISE_ADAGRAD).
  constexpr double kFp32Bytes = 4;
  states.parameters += kFp32Bytes * parameters.table;
  states.moments += kFp32Bytes * parameters.table_rows;
  return states;
}

}  // namespace lockstep::parallel
