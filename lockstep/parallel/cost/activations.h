// Bytes of activations on one pipeline rank when it holds most of them.
#pragma once
#include <vector>

#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/cost/memory_stack.h"
#include "lockstep/parallel/cost/shares.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

struct ActivationSetting {
  const model::ModelStats& model;  // with operators
  const Layout& layout;
  const PrecisionRecipe& recipe;
  const MemoryStack& stack;
};

/// Kept for backward, of micro-batches in flight, and what the largest step of backward needs
/// beside it.
struct ActivationBytes {
  double layers = 0;
  double ends = 0;     // embedding, head, loss: blocks that are no layers
  double outputs = 0;  // of the stage, where the stack keeps them
  double working = 0;  // a layer computed once more, gradients of activations
  [[nodiscard]] double total() const { return layers + ends + outputs + working; }
};

/// Korthikanti et al. 2022 (arXiv:2205.05198), equations 1 to 6 and section 4.3, for any model:
/// what the operators of a block keep, by the part of it that a rank has.
[[nodiscard]] ActivationBytes activation_bytes(const ActivationSetting& setting, int stage);

/// Of one block and micro-batch, under the layout's way to recompute.
[[nodiscard]] double kept_bytes(const ActivationSetting& setting, const model::BlockStats& block);

}  // namespace lockstep::parallel
