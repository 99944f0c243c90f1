#include "lockstep/parallel/flat_parameters.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"

namespace lockstep::parallel {
namespace {

at::Tensor flat_zeros(std::int64_t count, at::ScalarType type, memory::Category category) {
  const memory::Scope scope(category);
  return at::zeros({count}, at::TensorOptions().dtype(type));
}

}  // namespace

FlatParameters::FlatParameters(const std::vector<model::NamedTensor>& parameters,
                               const config::OptimizerSection& optimizer, config::Dtype compute)
    : compute_type_(compute) {
  const at::NoGradGuard no_grad;
  const bool mixed = compute != config::Dtype::fp32;
  std::vector<std::string> names;
  std::vector<std::int64_t> counts;
  std::vector<at::Tensor> originals;
  for (const model::NamedTensor& p : parameters) {
    if (!p.tensor.requires_grad()) {
      freeze(p);
      continue;
    }
    LOCKSTEP_CHECK(p.tensor.is_floating_point(), "parameter " + p.name + " is not floating-point");
    names.push_back(p.name);
    counts.push_back(p.tensor.numel());
    originals.push_back(p.tensor);
    sizes_.push_back(p.tensor.sizes().vec());
    const bool dense = p.tensor.is_non_overlapping_and_dense();
    strides_.push_back(dense ? p.tensor.strides().vec() : p.tensor.contiguous().strides().vec());
    views_.push_back({p.name, p.aliases, p.tensor, {}, {}, {}, mixed && !p.keep_fp32});
  }
  layout_ = optim::make_layout(names, counts);
  using memory::Category;
  master_ =
      flat_zeros(layout_.total, at::kFloat, mixed ? Category::optimizer : Category::parameters);
  if (mixed) compute_ = flat_zeros(layout_.total, compute_scalar_type(), Category::parameters);
  const bool adamw = optimizer.name == config::OptimizerName::adamw;
  if (adamw || optimizer.momentum != 0) {
    moment1_ = flat_zeros(layout_.total, at::kFloat, Category::optimizer);
  }
  if (adamw) moment2_ = flat_zeros(layout_.total, at::kFloat, Category::optimizer);
  for (std::size_t i = 0; i < views_.size(); ++i) {
    ParameterViews& v = views_[i];
    v.master = view_of(master_, i);
    v.master.copy_(originals[i]);
    if (moment1_.defined()) v.moment1 = view_of(moment1_, i);
    if (moment2_.defined()) v.moment2 = view_of(moment2_, i);
    v.variable.set_data(v.low_precision ? view_of(compute_, i) : v.master);
  }
  refresh_compute();
}

/// Keeps its own memory; in the compute type, so that it meets the others in one.
void FlatParameters::freeze(const model::NamedTensor& parameter) {
  frozen_.push_back(parameter);
  if (compute_type_ == config::Dtype::fp32 || parameter.keep_fp32) return;
  if (!parameter.tensor.is_floating_point()) return;
  const memory::Scope scope(memory::Category::parameters);
  frozen_.back().tensor.set_data(parameter.tensor.to(compute_scalar_type()));
}

void FlatParameters::check_frozen() const {
  std::vector<Problem> problems;
  for (const model::NamedTensor& frozen : frozen_) {
    if (!frozen.tensor.requires_grad()) continue;
    problems.push_back({"LS-7006", frozen.name,
                        "was frozen when its replica was made, and requires a gradient now",
                        "thaw it before the replica is made, and freeze it afterwards until it is "
                        "to be trained; or make the replica anew"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
}

at::Tensor FlatParameters::view_of(const at::Tensor& flat, std::size_t index) const {
  return flat.as_strided(sizes_[index], strides_[index], layout_.slots[index].offset);
}

std::vector<std::int64_t> FlatParameters::counts() const {
  std::vector<std::int64_t> counts;
  for (const optim::Slot& slot : layout_.slots) counts.push_back(slot.count);
  return counts;
}

void FlatParameters::broadcast(comm::Group& group) {
  if (group.size() == 1) return;
  const comm::Purpose purpose("the first parameters");
  group.broadcast(master_, 0)->wait();
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& frozen : frozen_) {
    const at::Tensor& parameter = frozen.tensor;
    const at::Tensor whole = parameter.contiguous();
    group.broadcast(whole, 0)->wait();
    if (!whole.is_same(parameter)) parameter.copy_(whole);
  }
  refresh_compute();
}

at::ScalarType FlatParameters::compute_scalar_type() const {
  if (compute_type_ == config::Dtype::fp32) return at::kFloat;
  return compute_type_ == config::Dtype::fp16 ? at::kHalf : at::kBFloat16;
}

std::vector<at::Tensor> FlatParameters::states() const {
  std::vector<at::Tensor> states{master_};
  if (moment1_.defined()) states.push_back(moment1_);
  if (moment2_.defined()) states.push_back(moment2_);
  return states;
}

void FlatParameters::refresh_compute() {
  if (!compute_.defined()) return;
  const at::NoGradGuard no_grad;
  compute_.copy_(master_);
}

float* FlatParameters::moment1() {
  return moment1_.defined() ? moment1_.mutable_data_ptr<float>() : nullptr;
}

float* FlatParameters::moment2() {
  return moment2_.defined() ? moment2_.mutable_data_ptr<float>() : nullptr;
}

std::uint16_t* FlatParameters::compute() {
  if (!compute_.defined()) return nullptr;
  return static_cast<std::uint16_t*>(compute_.mutable_data_ptr());
}

}  // namespace lockstep::parallel
