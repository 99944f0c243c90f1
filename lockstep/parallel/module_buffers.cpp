#include "lockstep/parallel/module_buffers.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"

namespace lockstep::parallel {
namespace {

at::Tensor flatten(const std::vector<at::Tensor>& tensors, at::ScalarType type) {
  std::vector<at::Tensor> pieces;
  for (const at::Tensor& t : tensors) pieces.push_back(t.to(type).reshape({-1}));
  return at::cat(pieces);
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& into) {
  std::int64_t offset = 0;
  for (const at::Tensor& t : into) {
    t.copy_(flat.narrow(0, offset, t.numel()).view(t.sizes()));
    offset += t.numel();
  }
}

}  // namespace

ModuleBuffers::ModuleBuffers(const std::vector<model::NamedTensor>& buffers) {
  const memory::Scope scope(memory::Category::buffers);
  for (const model::NamedTensor& b : buffers) {
    const bool floating = b.tensor.is_floating_point();
    LOCKSTEP_CHECK(!floating || b.tensor.scalar_type() == at::kFloat,
                   "floating buffer " + b.name + " is not fp32");
    (floating ? floats_ : integers_).push_back(b.tensor);
    (floating ? start_floats_ : start_integers_).push_back(b.tensor.clone());
    if (floating) float_count_ += b.tensor.numel();
  }
}

void ModuleBuffers::begin_step() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < floats_.size(); ++i) start_floats_[i].copy_(floats_[i]);
  for (std::size_t i = 0; i < integers_.size(); ++i) start_integers_[i].copy_(integers_[i]);
  integer_max_ = integers_.empty() ? at::Tensor() : flatten(integers_, at::kLong);
}

void ModuleBuffers::begin_micro_batch() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < floats_.size(); ++i) floats_[i].copy_(start_floats_[i]);
  for (std::size_t i = 0; i < integers_.size(); ++i) integers_[i].copy_(start_integers_[i]);
}

void ModuleBuffers::read(std::span<float> into) const {
  auto to = into.begin();
  for (const at::Tensor& t : floats_) {
    const at::Tensor whole = t.contiguous();
    const float* from = whole.const_data_ptr<float>();
    to = std::copy(from, from + whole.numel(), to);
  }
}

void ModuleBuffers::end_micro_batch() {
  if (integers_.empty()) return;
  const at::NoGradGuard no_grad;
  integer_max_ = at::maximum(integer_max_, flatten(integers_, at::kLong));
}

std::unique_ptr<comm::Work> ModuleBuffers::reduce_integers(comm::Group& group) {
  if (integers_.empty() || group.size() == 1) return nullptr;
  const comm::Purpose purpose("integer module buffers");
  return group.all_reduce(integer_max_, comm::ReduceOp::max);
}

void ModuleBuffers::finish_step(std::span<const float> sums, std::int64_t terms) {
  const at::NoGradGuard no_grad;
  auto from = sums.begin();
  for (const at::Tensor& t : floats_) {
    LOCKSTEP_CHECK(t.is_contiguous(), "module buffers must be contiguous");
    float* to = t.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < t.numel(); ++i) to[i] = *from++ / static_cast<float>(terms);
  }
  if (!integers_.empty()) unflatten(integer_max_, integers_);
}

std::vector<at::Tensor> ModuleBuffers::copy() const {
  std::vector<at::Tensor> copies;
  for (const auto* list : {&floats_, &integers_}) {
    for (const at::Tensor& t : *list) copies.push_back(t.clone());
  }
  return copies;
}

void ModuleBuffers::write(const std::vector<at::Tensor>& copies) {
  const at::NoGradGuard no_grad;
  auto from = copies.begin();
  for (const auto* list : {&floats_, &integers_}) {
    for (const at::Tensor& t : *list) t.copy_(*from++);
  }
}

void ModuleBuffers::broadcast(comm::Group& group) {
  if (group.size() == 1) return;
  const at::NoGradGuard no_grad;
  const comm::Purpose purpose("the first module buffers");
  for (const auto* list : {&floats_, &integers_}) {
    if (list->empty()) continue;
    const at::ScalarType type = list == &floats_ ? at::kFloat : at::kLong;
    const at::Tensor flat = flatten(*list, type);
    group.broadcast(flat, 0)->wait();
    unflatten(flat, *list);
  }
}

}  // namespace lockstep::parallel
