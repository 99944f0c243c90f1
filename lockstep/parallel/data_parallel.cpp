#include "lockstep/parallel/data_parallel.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/update.h"

namespace lockstep::parallel {

DataParallel::DataParallel(torch::nn::Module& module, comm::Group& group,
                           const DataParallelOptions& options)
    : DataParallel(module_parameters(module), module_buffers(module), group, options) {}

DataParallel::DataParallel(const std::vector<model::NamedTensor>& parameters,
                           const std::vector<model::NamedTensor>& buffers, comm::Group& group,
                           const DataParallelOptions& options)
    : optimizer_(options.optimizer),
      parameters_(parameters, options.optimizer, options.compute),
      reducer_(parameters_, buffers, group, options.reducer) {
  parameters_.broadcast(group);
  reducer_.buffers().broadcast(group);
}

void DataParallel::backward(const model::LossSum& loss) {
  const memory::Scope scope(memory::Category::activations);
  const double value = loss.sum.item<double>();
  loss.sum.backward();
  reducer_.end_leaf(value, loss.weight, control_);
}

StepSums DataParallel::reduce() {
  StepSums sums = reducer_.wait();
  weight_ = sums.weight;
  clip_factor_ = 1;
  control_ = {};
  return sums;
}

double DataParallel::clip_grad_norm(double max_norm) {
  LOCKSTEP_CHECK(weight_ > 0, "clip_grad_norm before reduce");
  optim::NormSum sum;
  const float scale = static_cast<float>(1.0 / static_cast<double>(weight_));
  const auto& slots = parameters_.layout().slots;
  for (std::size_t p = 0; p < slots.size(); ++p) {
    sum.add(slots[p].offset, reducer_.gradient(p), scale);
  }
  const double norm = sum.norm();
  constexpr double kEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_
  if (max_norm > 0) clip_factor_ = std::min(1.0, max_norm / (norm + kEpsilon));
  return norm;
}

void DataParallel::optimizer_step(double lr) {
  LOCKSTEP_CHECK(weight_ > 0, "optimizer_step before reduce");
  ++updates_;
  const optim::UpdateStep step{optimizer_, lr, clip_factor_ / static_cast<double>(weight_),
                               updates_};
  const auto at_offset = [](auto* base, std::int64_t offset) {
    return base == nullptr ? nullptr : base + offset;
  };
  const auto& slots = parameters_.layout().slots;
  for (std::size_t p = 0; p < slots.size(); ++p) {
    if (!reducer_.used(p)) continue;
    const std::int64_t offset = slots[p].offset;
    optim::UpdateView view;
    view.master = parameters_.master() + offset;
    view.gradient = reducer_.gradient(p).data();
    view.moment1 = at_offset(parameters_.moment1(), offset);
    view.moment2 = at_offset(parameters_.moment2(), offset);
    if (parameters_.views()[p].low_precision) view.compute = parameters_.compute() + offset;
    view.count = slots[p].count;
    optim::update(view, step);
  }
}

double DataParallel::step(double lr, const std::function<model::LossSum()>& loss) {
  begin_step();
  begin_micro_batch();
  const model::LossSum sum = [&] {
    const memory::Scope scope(memory::Category::activations);
    return loss();
  }();
  if (sum.weight > 0) {
    backward(sum);
  } else {
    skip();
  }
  const StepSums sums = reduce();
  if (sums.weight == 0) return std::nan("");
  optimizer_step(lr);
  return sums.loss_sum / static_cast<double>(sums.weight);
}

model::LossSum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target) {
  return {at::cross_entropy_loss(logits.to(at::kFloat), target, {}, at::Reduction::Sum),
          target.numel()};
}

namespace {

/// Named tensors of a module, a shared tensor once under its first name.
template <typename Items>
std::vector<model::NamedTensor> unique_named(const Items& items) {
  std::vector<model::NamedTensor> unique;
  for (const auto& item : items) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    const auto same = std::find_if(unique.begin(), unique.end(), [&](const model::NamedTensor& t) {
      return t.tensor.is_same(tensor);
    });
    if (same != unique.end()) {
      same->aliases.push_back(item.key());
    } else {
      unique.push_back({item.key(), tensor, {}, false});
    }
  }
  return unique;
}

/// A layer with a one-dimensional weight is a normalisation layer: matrix layers have more dims.
void mark_normalisation(const torch::nn::Module& layer, std::vector<model::NamedTensor>& tensors) {
  const auto own = layer.named_parameters(/*recurse=*/false);
  const at::Tensor* weight = own.find("weight");
  if (weight != nullptr && weight->defined() && weight->dim() == 1) {
    for (const auto& parameter : own) {
      for (model::NamedTensor& tensor : tensors) {
        if (tensor.tensor.is_same(parameter.value())) tensor.keep_fp32 = true;
      }
    }
  }
  for (const auto& child : layer.children()) mark_normalisation(*child, tensors);
}

}  // namespace

std::vector<model::NamedTensor> module_parameters(const torch::nn::Module& module) {
  std::vector<model::NamedTensor> parameters = unique_named(module.named_parameters(true));
  mark_normalisation(module, parameters);
  return parameters;
}

std::vector<model::NamedTensor> module_buffers(const torch::nn::Module& module) {
  return unique_named(module.named_buffers(true));
}

}  // namespace lockstep::parallel
