#include "lockstep/comm/shm_tensors.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace lockstep::comm {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

bool lie_in_a_row(const std::vector<at::Tensor>& tensors) {
  const auto* at = static_cast<const std::byte*>(tensors.front().const_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor) || tensor.const_data_ptr() != at) return false;
    at += tensor.nbytes();
  }
  return true;
}

/// Uninitialised memory for all of them.
at::Tensor room_for(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return at::empty({count}, tensors.front().options().requires_grad(false));
}

}  // namespace

ItemElements moved_elements(at::ScalarType dtype) {
  using shm::ElementType;
  switch (dtype) {
    case at::kFloat:
      return {ElementType::f32, 1};
    case at::kDouble:
      return {ElementType::f64, 1};
    case at::kBFloat16:
      return {ElementType::bf16, 1};
    case at::kHalf:
      return {ElementType::f16, 1};
    case at::kChar:
      return {ElementType::i8, 1};
    case at::kShort:
      return {ElementType::i16, 1};
    case at::kInt:
      return {ElementType::i32, 1};
    case at::kLong:
      return {ElementType::i64, 1};
    case at::kBool:
      return {ElementType::boolean, 1};
    case at::kComplexHalf:
      return {ElementType::f16, 2};
    case at::kComplexFloat:
      return {ElementType::f32, 2};
    case at::kComplexDouble:
      return {ElementType::f64, 2};
    default:
      break;
  }
  return {ElementType::u8, c10::elementSize(dtype)};
}

shm::Reduction reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return shm::Reduction::sum;
    case c10d::ReduceOp::AVG:
      return shm::Reduction::mean;
    case c10d::ReduceOp::MIN:
      return shm::Reduction::min;
    case c10d::ReduceOp::MAX:
      return shm::Reduction::max;
    case c10d::ReduceOp::PRODUCT:
      return shm::Reduction::product;
    case c10d::ReduceOp::BAND:
      return shm::Reduction::bit_and;
    case c10d::ReduceOp::BOR:
      return shm::Reduction::bit_or;
    case c10d::ReduceOp::BXOR:
      return shm::Reduction::bit_xor;
    default:
      break;
  }
  TORCH_CHECK_VALUE(false,
                    "lockstep: this reduction is not implemented (PREMUL_SUM is NCCL's own)");
}

ItemElements reduced_elements(at::ScalarType dtype, const c10d::ReduceOp& op) {
  const shm::Reduction reduction = reduction_of(op);
  const ItemElements elements = moved_elements(dtype);
  const bool is_known = dtype == at::kByte || elements.type != shm::ElementType::u8;
  const bool is_sum = reduction == shm::Reduction::sum || reduction == shm::Reduction::mean;
  TORCH_CHECK_VALUE(
      is_known && shm::is_defined(reduction, elements.type) && (elements.per_item == 1 || is_sum),
      "lockstep: the ", shm::name(reduction), " of ", c10::toString(dtype),
      " is not defined; convert the tensor first");
  return elements;
}

void check_dense(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided,
                    "lockstep: collectives take dense CPU tensors");
}

void check_list(const std::vector<at::Tensor>& tensors, std::size_t size, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(tensors.size() == size, "lockstep: a list of ", tensors.size(),
                    " tensors where the group has ", size, " ranks");
  for (const at::Tensor& tensor : tensors) {
    check_dense(tensor);
    TORCH_CHECK_VALUE(tensor.scalar_type() == dtype, "lockstep: tensors of ",
                      c10::toString(tensor.scalar_type()), " and ", c10::toString(dtype),
                      " in one collective");
  }
}

void* StagedTensors::keep(at::Tensor tensor) {
  void* const data = tensor.mutable_data_ptr();
  kept_.push_back(std::move(tensor));
  return data;
}

const void* StagedTensors::input(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  kept_.push_back(is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous());
  return kept_.back().const_data_ptr();
}

void* StagedTensors::output(const at::Tensor& tensor) {
  if (is_plain(tensor)) return keep(tensor);
  copies_.emplace_back(
      tensor, at::empty(tensor.sizes(), tensor.options().requires_grad(false).memory_format(
                                            at::MemoryFormat::Contiguous)));
  return keep(copies_.back().second);
}

void* StagedTensors::in_place(const at::Tensor& tensor) {
  if (is_plain(tensor)) return keep(tensor);
  void* const room = output(tensor);
  const at::NoGradGuard no_grad;
  kept_.back().copy_(tensor);
  return room;
}

const void* StagedTensors::packed_input(const std::vector<at::Tensor>& tensors) {
  if (lie_in_a_row(tensors)) {
    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    return tensors.front().const_data_ptr();
  }
  const at::NoGradGuard no_grad;
  const at::Tensor room = room_for(tensors);
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    room.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return keep(room);
}

void* StagedTensors::packed_output(const std::vector<at::Tensor>& tensors) {
  if (lie_in_a_row(tensors)) {
    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    return tensors.front().mutable_data_ptr();
  }
  const at::NoGradGuard no_grad;
  const at::Tensor room = room_for(tensors);
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    copies_.emplace_back(tensor, room.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  return keep(room);
}

void StagedTensors::copy_back() {
  const at::NoGradGuard no_grad;
  for (const auto& [to, from] : copies_) to.copy_(from);
}

}  // namespace lockstep::comm
