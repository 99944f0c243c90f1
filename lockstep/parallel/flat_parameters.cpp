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
                               const config::OptimizerSection& optimizer, config::Dtype compute) {
  const at::NoGradGuard no_grad;
  const bool mixed = compute == config::Dtype::bf16;
  std::vector<std::string> names;
  std::vector<std::int64_t> counts;
  std::vector<at::Tensor> originals;
  for (const model::NamedTensor& p : parameters) {
    if (!p.tensor.requires_grad()) continue;
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
  if (mixed) compute_ = flat_zeros(layout_.total, at::kBFloat16, Category::parameters);
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
  refresh_compute();
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
  return reinterpret_cast<std::uint16_t*>(compute_.mutable_data_ptr<at::BFloat16>());
}

}  // namespace lockstep::parallel
