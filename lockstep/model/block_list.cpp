#include "lockstep/model/block_list.h"

#include <ATen/ATen.h>

namespace lockstep::model {
namespace {

// N targets (samples, or tokens of all samples), V classes.
at::Tensor rows_NV(const at::Tensor& output) {
  return output.flatten(0, -2).to(at::kFloat);
}

at::Tensor cross_entropy_sum(const at::Tensor& logits_NV, const at::Tensor& target) {
  return at::cross_entropy_loss(logits_NV, target.flatten(), {}, at::Reduction::Sum);
}

}  // namespace

LossSum BlockList::loss(const at::Tensor& output, const data::Batch& batch) const {
  return {cross_entropy_sum(rows_NV(output), batch.target), batch.weight};
}

EvalSum BlockList::evaluate(const at::Tensor& output, const data::Batch& batch) const {
  const at::Tensor logits_NV = rows_NV(output);
  const at::Tensor right = logits_NV.argmax(1).eq(batch.target.flatten());
  return {cross_entropy_sum(logits_NV, batch.target).item<double>(),
          right.sum().item<std::int64_t>(), batch.weight};
}

}  // namespace lockstep::model
