// reduce_scatter over Gloo: exchange parts, reduce the own one here, always as a tree over the
// ranks.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

class ScatterWork {
 public:
  /// Collective. \param output [count]; \param input [n * count], both contiguous.
  ScatterWork(c10d::Backend& backend, at::Tensor output, const at::Tensor& input, ReduceOp op);
  /// Puts the reduction of the parts into the output. \pre exchange() has ended well.
  void finish();
  [[nodiscard]] const c10::intrusive_ptr<c10d::Work>& exchange() const { return exchange_; }

 private:
  at::Tensor output_;
  at::Tensor terms_;  // [n, count]: this rank's part as every rank has it
  ReduceOp op_;
  c10::intrusive_ptr<c10d::Work> exchange_;
};

}  // namespace lockstep::comm
