// The gradients of a step a second time, by plain autograd on one rank, beside the summed ones.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "lockstep/parallel/flat_parameters.h"
#include "lockstep/parallel/gradient_reducer.h"
#include "lockstep/parallel/module_buffers.h"

namespace lockstep::parallel {

struct GradientDifference {
  double worst_relative = 0;  // NaN when a gradient is not finite
  std::string parameter;      // whose
};

/// Leaves everything as it was: no hook fires, no gradient of a parameter is set, and the module
/// buffers and the default generator are put back when it goes.
class GradientCheck {
 public:
  /// After the reducer's wait(), before the update. All of it outlives the check.
  GradientCheck(const FlatParameters& parameters, GradientReducer& reducer);
  GradientCheck(const GradientCheck&) = delete;
  GradientCheck& operator=(const GradientCheck&) = delete;
  ~GradientCheck();

  /// Before the forward of each part of the global batch: module buffers are those that the step
  /// started from.
  void begin_part();
  /// Adds the gradients of the summed loss of a part; in fp16 by the loss scale of the step.
  void add(const at::Tensor& loss_sum);
  /// Of each parameter |reducer's gradient - this one| / |this one| (L2 norms), the largest. What
  /// is far below the root mean square of all gradients is measured by a thousandth of that: a
  /// gradient that is zero but for rounding differs by its whole size.
  [[nodiscard]] GradientDifference worst() const;

 private:
  const FlatParameters& parameters_;
  GradientReducer& reducer_;
  std::vector<at::Tensor> buffers_;  // as they were
  at::Tensor generator_;             // its state
  std::vector<at::Tensor> sums_;  // fp32, shape and strides of the master; undefined = no gradient
};

}  // namespace lockstep::parallel
