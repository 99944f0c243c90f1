// Memory of any model under any layout: docs/planning.md, "Memory".
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/cost/activations.h"
#include "lockstep/parallel/cost/memory_stack.h"
#include "lockstep/parallel/cost/states.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::parallel {

struct MemoryPrediction {
  MemoryPlan device;                     // of the fullest pipeline stage, by category
  int stage = 0;                         // which one that is
  DeviceParameters parameters;           // that it computes with
  StateBytes states;                     // parts of device.parameters, .gradients and .optimizer
  ActivationBytes activations;           // parts of device.activations
  std::int64_t host_bytes = 0;           // of one device, in the memory of its host
  std::int64_t nvme_bytes = 0;           // of one device, on a disk of its host
  std::vector<std::string> assumptions;  // a sentence each
};

/// \param model with operators (model::architecture_stats).
/// \pre check_layout finds nothing.
[[nodiscard]] MemoryPrediction predict_memory(const model::ModelStats& model, const Layout& layout,
                                              const PrecisionRecipe& recipe,
                                              const MemoryStack& stack = usual_memory_stack());

}  // namespace lockstep::parallel
