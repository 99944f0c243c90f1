#include "lockstep/parallel/data_parallel.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/update.h"

namespace lockstep::parallel {

DataParallel::DataParallel(torch::nn::Module& module, comm::Group& group,
                           const DataParallelOptions& options)
    : DataParallel(module_parameters(module), module_buffers(module), group, options) {}

DataParallel::DataParallel(const std::vector<model::NamedTensor>& parameters,
                           const std::vector<model::NamedTensor>& buffers, comm::Group& group,
                           const DataParallelOptions& options)
    : group_(group),
      optimizer_(options.optimizer),
      parameters_(parameters, options.optimizer, options.compute),
      reducer_(parameters_, buffers, group, options.reducer),
      groups_(options.rules, options.optimizer),
      parts_(options.reducer.leaves * group.size()),
      local_(options.local) {
  if (options.compute == config::Dtype::fp16) scale_.emplace(options.loss_scale);
  for (const ParameterViews& v : parameters_.views()) groups_.add(v.name, v.master.sizes());
  parameters_.broadcast(group);
  reducer_.buffers().broadcast(group);
}

void DataParallel::set_leaves(std::int64_t leaves) {
  parts_ = parts_ / reducer_.leaves() * leaves;
  reducer_.set_leaves(leaves);
}

void DataParallel::begin_step() {
  parameters_.check_frozen();
  reducer_.begin_step(!is_local(), updates_);
}

void DataParallel::backward(const model::LossSum& loss) {
  const memory::Scope scope(memory::Category::activations);
  const double value = loss.sum.item<double>();
  if (scale_) {
    backward_scaled(loss, value);
  } else {
    loss.sum.backward();
  }
  reducer_.end_leaf(value, loss.weight, control_);
}

/// The scale enters as the gradient of the loss itself, which costs nothing.
void DataParallel::backward_scaled(const model::LossSum& loss, double value) {
  const std::int64_t known = scale_->options().batch_weight;
  const std::int64_t weight = known > 0 ? known : loss.weight * parts_;
  const double factor = scale_->factor(std::max<std::int64_t>(weight, 1));
  reducer_.set_loss_scale(factor);
  if (!std::isfinite(value)) reducer_.note_not_finite({NotFiniteAt::Kind::loss, 0});
  loss.sum.backward(at::full_like(loss.sum, factor));
}

void DataParallel::note_not_finite_output(std::size_t block) {
  reducer_.note_not_finite({NotFiniteAt::Kind::output, static_cast<std::int64_t>(block)});
}

void DataParallel::set_loss_scale(const optim::LossScaleState& state) {
  if (scale_) scale_->set_state(state);
  skips_in_a_row_ = 0;
}

std::optional<NotFinite> DataParallel::not_finite(const std::vector<std::string>& blocks) const {
  PlaceNames names{{}, blocks};
  for (const ParameterViews& v : parameters_.views()) names.parameters.push_back(v.name);
  const std::optional<NotFinite> first = first_not_finite(not_finite_, names);
  if (first || !overflown_) return first;
  return NotFinite{NotFinite::kNoRank, "the fp16 sum of " + reducer_.bucket_name(*overflown_)};
}

StepSums DataParallel::reduce() {
  StepSums sums = reducer_.wait();
  weight_ = sums.weight;
  ends_soon_ = sums.stop_votes > 0 || sums.restore_votes > 0;
  clip_factor_ = 1;
  control_ = {};
  not_finite_ = sums.not_finite;
  overflown_ = sums.overflown_bucket;
  finite_ = std::isfinite(sums.loss_sum) && !overflown_ &&
            std::all_of(not_finite_.begin(), not_finite_.end(), [](const NotFiniteAt& at) {
              return at.kind == NotFiniteAt::Kind::nowhere;
            });
  return sums;
}

double DataParallel::clip_grad_norm(double max_norm) {
  LOCKSTEP_CHECK(weight_ > 0, "clip_grad_norm before reduce");
  optim::NormSum sum;
  const float scale = static_cast<float>(
      1.0 / static_cast<double>(std::max<std::int64_t>(reducer_.gradient_weight(), 1)));
  const auto& slots = parameters_.layout().slots;
  for (std::size_t p = 0; p < slots.size(); ++p) {
    sum.add(slots[p].offset, reducer_.gradient(p), scale);
  }
  const double norm = sum.norm();
  constexpr double kEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_
  if (max_norm > 0) clip_factor_ = std::min(1.0, max_norm / (norm + kEpsilon));
  const double agreed = is_local() ? mean_over_ranks(norm * norm) : norm * norm;
  finite_ = finite_ && std::isfinite(agreed);
  return is_local() ? std::sqrt(agreed) : norm;
}

/// Collective. What is decided by it is decided on all ranks alike.
double DataParallel::mean_over_ranks(double value) {
  const at::Tensor sum = at::scalar_tensor(value, at::kDouble).view(1);
  const comm::Purpose purpose("the norms of gradients that are not summed");
  group_.all_reduce(sum, comm::ReduceOp::sum)->wait();
  return sum.item<double>() / group_.size();
}

bool DataParallel::is_local() const {
  return local_.every > 1 && updates_ >= local_.from && group_.size() > 1;
}

/// What belongs to the steps before the load ends with them.
void DataParallel::set_updates(std::int64_t updates) {
  updates_ = updates;
  differs_ = ends_soon_ = false;
  reducer_.forget_errors();
}

void DataParallel::settle() {
  if (!differs_) return;
  differs_ = false;
  const at::NoGradGuard no_autograd;
  const comm::Purpose purpose("the average of the parameters");
  for (const at::Tensor& state : parameters_.states()) {
    group_.all_reduce(state, comm::ReduceOp::sum)->wait();
    state.mul_(1.0 / group_.size());
  }
  parameters_.refresh_compute();
}

/// What each group of parameters is updated by.
std::vector<optim::UpdateStep> DataParallel::group_steps(double lr) const {
  std::vector<optim::UpdateStep> steps;
  for (const ParameterGroup& group : groups_.groups()) {
    optim::UpdateStep step{optimizer_, lr * group.lr_factor,
                           clip_factor_ / static_cast<double>(reducer_.gradient_weight()),
                           updates_};
    step.optimizer.weight_decay = group.weight_decay;
    steps.push_back(step);
  }
  return steps;
}

bool DataParallel::optimizer_step(double lr) {
  LOCKSTEP_CHECK(weight_ > 0, "optimizer_step before reduce");
  if (scale_) scale_->update(finite_);
  const bool skips = scale_ ? !finite_ : overflown_.has_value();
  skips_in_a_row_ = skips ? skips_in_a_row_ + 1 : 0;
  if (skips) {
    drop_step();
    return false;
  }
  const bool alone = is_local();
  ++updates_;
  if (reducer_.gradient_weight() > 0) update_parameters(lr);  // a rank alone may have no samples
  differs_ = differs_ || alone;
  if (updates_ % local_.every == 0 || ends_soon_) settle();
  return true;
}

void DataParallel::update_parameters(double lr) {
  const std::vector<optim::UpdateStep> steps = group_steps(lr);
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
    view.compute_type = parameters_.compute_type();
    view.count = slots[p].count;
    optim::update(view, steps[groups_.group_of(p)]);
  }
}

double DataParallel::step(double lr, const std::function<model::LossSum()>& loss) {
  begin_step();
  begin_micro_batch();
  const model::LossSum sum = [&] {
    const memory::Scope scope(memory::Category::activations);
    return loss();
  }();
  // A loss of no rows still takes part in the collectives of the module's own backward.
  if (sum.weight > 0 || (sum.sum.defined() && sum.sum.requires_grad())) {
    backward(sum);
  } else {
    skip();
  }
  const StepSums sums = reduce();
  if (sums.weight == 0) return std::nan("");
  if (!optimizer_step(lr) && skips_in_a_row_ >= optim::kMaxSkippedSteps) {
    const std::string where = "step " + std::to_string(updates_ + 1);
    throw scale_ ? scale_does_not_help(where, *scale_, not_finite())
                 : sums_leave_fp16(where, *not_finite());
  }
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
