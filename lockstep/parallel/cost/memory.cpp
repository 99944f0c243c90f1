#include "lockstep/parallel/cost/memory.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {
namespace {

std::int64_t rounded_up(double bytes) { return Saturated::of(std::ceil(bytes)).value(); }

double buffer_floats(const model::ModelStats& model) {
  double sum = 0;
  for (const model::BlockStats& block : model.blocks) {
    sum += static_cast<double>(block.buffer_floats);
  }
  return sum;
}

/// Module buffers and the batch: of the one that computes and of the next.
double input_bytes(const ActivationSetting& s) {
  constexpr double kBatches = 2;
  constexpr double kFp32Bytes = 4;
  const double samples = static_cast<double>(s.layout.micro_batch) * shares_of(s.layout).tokens;
  return kBatches * samples * static_cast<double>(s.model.input_bytes_per_sample) +
         kFp32Bytes * buffer_floats(s.model);
}

/// What is made and freed within a micro-batch. What waits for a pipeline's next stages, or for
/// recomputation, lives longer.
double short_lived(const ActivationBytes& activations, const Layout& layout) {
  if (layout.pipeline > 1) return activations.working;
  const double rest = activations.ends + activations.working;
  return layout.recompute == Recompute::full ? rest : rest + activations.layers;
}

double runtime_bytes(const StageSetting& s, const ActivationBytes& activations,
                     const AddedBytes& added) {
  const MemoryStack& stack = s.stack();
  double bytes = stack.runtime_bytes + stack.slack * (activations.total() + added.buffers);
  if (s.layout().tensor > 1) {
    const double share = stack.kept_by_exchange / (s.layout().accumulation > 1 ? 1 : 2);
    bytes += share * short_lived(activations, s.layout());
  }
  return bytes;
}

MemoryPrediction predict_stage(const ActivationSetting& setting, int stage) {
  MemoryPrediction result;
  result.stage = stage;
  result.parameters = parameters_of_stage(setting.model, setting.layout, stage);
  result.states = state_bytes(result.parameters, setting.layout, setting.recipe);
  result.activations = activation_bytes(setting, stage);
  const StageSetting here{setting, stage, result.parameters};
  AddedBytes added;
  if (!setting.stack.activations_alone) added.buffers = input_bytes(setting);
  for (const LayoutPart& part : layout_parts()) {
    if (part.add != nullptr) part.add(here, added);
  }
  MemoryPlan& device = result.device;
  device.parameters = rounded_up(result.states.parameters);
  device.gradients = rounded_up(result.states.gradients);
  device.optimizer = rounded_up(result.states.optimizer());
  device.activations = rounded_up(result.activations.total());
  device.buffers = rounded_up(added.buffers);
  device.communication = rounded_up(added.communication);
  device.runtime = rounded_up(runtime_bytes(here, result.activations, added));
  result.host_bytes = rounded_up(result.states.host + added.host);
  result.nvme_bytes = rounded_up(result.states.nvme);
  return result;
}

std::vector<std::string> assumptions_of(const ActivationSetting& setting) {
  std::vector<std::string> sentences;
  for (const LayoutPart& part : layout_parts()) {
    if (part.assume != nullptr) part.assume(setting, sentences);
  }
  const MemoryStack& stack = setting.stack;
  sentences.push_back("software " + std::string(stack.name) + ": context and libraries take " +
                      format_bytes(rounded_up(stack.runtime_bytes)) + ", the allocator keeps " +
                      format_percent(stack.slack, 0) + " beside activations and buffers");
  return sentences;
}

}  // namespace

MemoryPrediction predict_memory(const model::ModelStats& model, const Layout& layout,
                                const PrecisionRecipe& recipe, const MemoryStack& stack) {
  const ActivationSetting setting{model, layout, recipe, stack};
  MemoryPrediction fullest = predict_stage(setting, 0);
  for (int stage = 1; stage < layout.pipeline; ++stage) {
    MemoryPrediction next = predict_stage(setting, stage);
    if (next.device.total() > fullest.device.total()) fullest = std::move(next);
  }
  fullest.assumptions = assumptions_of(setting);
  return fullest;
}

}  // namespace lockstep::parallel
