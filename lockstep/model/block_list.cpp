#include "lockstep/model/block_list.h"

#include <ATen/ATen.h>

#include "lockstep/model/fused_ops.h"

namespace lockstep::model {

// N targets (samples, or tokens of all samples), V classes.

LossSum BlockList::loss(const at::Tensor& output, const data::Batch& batch) const {
  return {cross_entropy_sum(output.flatten(0, -2), batch.target.flatten()), batch.weight};
}

EvalSum BlockList::evaluate(const at::Tensor& output, const data::Batch& batch) const {
  const at::Tensor logits_NV = output.flatten(0, -2);
  const at::Tensor target_N = batch.target.flatten();
  const at::Tensor right = logits_NV.argmax(1).eq(target_N);
  return {cross_entropy_sum(logits_NV, target_N).item<double>(), right.sum().item<std::int64_t>(),
          batch.weight};
}

}  // namespace lockstep::model
