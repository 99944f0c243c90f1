#include "lockstep/optim/update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_layout.h"
#include "lockstep/optim/update_kernel.h"

namespace lockstep::optim {
namespace {

static_assert(kChunkElements % kBlockElements == 0);

Rule rule_of(const config::OptimizerSection& optimizer) {
  if (optimizer.name == config::OptimizerName::adamw) return Rule::adamw;
  if (optimizer.momentum == 0.0) return Rule::sgd;
  return optimizer.nesterov ? Rule::sgd_nesterov : Rule::sgd_momentum;
}

/// In double and rounded once, as PyTorch's single-tensor loops do with their Python scalars.
RuleConstants constants_of(const UpdateStep& step) {
  const auto& optimizer = step.optimizer;
  const auto count = static_cast<double>(step.step);
  const auto [beta1, beta2] = optimizer.betas;
  RuleConstants k;
  k.gradient_scale = static_cast<float>(step.gradient_scale);
  k.lr = static_cast<float>(step.lr);
  k.weight_decay = static_cast<float>(optimizer.weight_decay);
  k.momentum = static_cast<float>(optimizer.momentum);
  k.first = step.step == 1;
  k.decay = static_cast<float>(1.0 - step.lr * optimizer.weight_decay);
  k.blend1 = static_cast<float>(1.0 - beta1);
  k.beta2 = static_cast<float>(beta2);
  k.blend2 = static_cast<float>(1.0 - beta2);
  k.step_size = static_cast<float>(step.lr / (1.0 - std::pow(beta1, count)));
  k.root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, count)));
  k.eps = static_cast<float>(optimizer.eps);
  return k;
}

UpdateView advanced(UpdateView view, std::int64_t by) {
  view.master += by;
  view.gradient += by;
  if (view.moment1 != nullptr) view.moment1 += by;
  if (view.moment2 != nullptr) view.moment2 += by;
  if (view.compute != nullptr) view.compute += by;
  view.count -= by;
  return view;
}

/// The last elements, fewer than a block, go through the same loop in a padded copy.
void update_tail(Rule rule, const UpdateView& tail, const RuleConstants& constants) {
  std::array<float, kBlockElements> master{};
  std::array<float, kBlockElements> gradient{};
  std::array<float, kBlockElements> moment1{};
  std::array<float, kBlockElements> moment2{};
  std::array<std::uint16_t, kBlockElements> compute{};
  std::copy_n(tail.master, tail.count, master.begin());
  std::copy_n(tail.gradient, tail.count, gradient.begin());
  if (tail.moment1 != nullptr) std::copy_n(tail.moment1, tail.count, moment1.begin());
  if (tail.moment2 != nullptr) std::copy_n(tail.moment2, tail.count, moment2.begin());
  update_blocks(
      rule,
      {master.data(), gradient.data(), moment1.data(), moment2.data(),
       tail.compute != nullptr ? compute.data() : nullptr, kBlockElements, tail.compute_type},
      constants);
  std::copy_n(master.begin(), tail.count, tail.master);
  if (tail.moment1 != nullptr) std::copy_n(moment1.begin(), tail.count, tail.moment1);
  if (tail.moment2 != nullptr) std::copy_n(moment2.begin(), tail.count, tail.moment2);
  if (tail.compute != nullptr) std::copy_n(compute.begin(), tail.count, tail.compute);
}

}  // namespace

void update(const UpdateView& view, const UpdateStep& step) {
  const Rule rule = rule_of(step.optimizer);
  LOCKSTEP_CHECK(step.step >= 1, "update steps count from 1");
  LOCKSTEP_CHECK(rule == Rule::sgd || view.moment1 != nullptr, "update without its first moment");
  LOCKSTEP_CHECK(rule != Rule::adamw || view.moment2 != nullptr, "AdamW without second moment");
  const RuleConstants constants = constants_of(step);
  UpdateView blocks = view;
  blocks.count = view.count / kBlockElements * kBlockElements;
  update_blocks(rule, blocks, constants);
  if (blocks.count < view.count) update_tail(rule, advanced(view, blocks.count), constants);
}

void NormSum::add(std::int64_t offset, std::span<const float> gradient, float scale) {
  static_assert(kLanes == kNormLanes);
  LOCKSTEP_CHECK(offset % kLanes == 0, "a run of gradients must start at a padded offset");
  while (!gradient.empty()) {
    const std::int64_t chunk = offset / kChunkElements;
    if (chunk != chunk_) {
      LOCKSTEP_CHECK(chunk > chunk_, "runs of gradients must come in layout order");
      finish_chunk();
      chunk_ = chunk;
    }
    const std::int64_t room = (chunk + 1) * kChunkElements - offset;
    const auto count = std::min<std::int64_t>(room, static_cast<std::int64_t>(gradient.size()));
    const std::int64_t whole = count / kLanes * kLanes;
    add_squares(lanes_, gradient.data(), whole, scale);
    if (whole < count) {
      std::array<float, kLanes> padded{};
      std::copy_n(gradient.data() + whole, count - whole, padded.begin());
      add_squares(lanes_, padded.data(), kLanes, scale);
    }
    gradient = gradient.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void NormSum::finish_chunk() {
  double sum = 0;
  for (double& lane : lanes_) {
    sum += lane;
    lane = 0;
  }
  total_ += sum;
}

double NormSum::norm() {
  finish_chunk();
  return std::sqrt(total_);
}

void add_into(float* into, const float* from, std::int64_t count) {
  add_elements(into, from, count);
}

bool take_gradient(float* into, const float* from, std::int64_t count, float factor, bool add) {
  return take_elements(into, from, count, factor, add) < kFp32Infinity;
}

bool take_gradient(float* into, const Fp16Bits* from, std::int64_t count, float factor, bool add) {
  return take_elements(into, from, count, factor, add) < kFp32Infinity;
}

}  // namespace lockstep::optim
