// What `lockstep bench kernels` times: each operator of the worker at a grid of sizes.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/topology/kernel_rates.h"

namespace lockstep::worker {

/// One copy of an operator's operands: each copy has its own, as each layer of a model has.
struct KernelOperands {
  at::Tensor input;                          // undefined where it has none that takes a gradient
  std::vector<at::Tensor> parameters;        // that take gradients
  std::function<at::Tensor()> run;           // forward
  std::function<at::Tensor()> run_backward;  // empty: what autograd makes of it, if anything
  std::shared_ptr<void> owner;               // what `run` needs
};

/// Bytes that one copy's forward and backward touch, about.
[[nodiscard]] double bytes_of(const KernelPoint& point);

/// Fresh operands of `point`, in its type.
[[nodiscard]] KernelOperands make_operands(const KernelPoint& point);

}  // namespace lockstep::worker
