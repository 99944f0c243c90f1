// Tensors as what shared memory moves: one type of element, one piece of contiguous memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "lockstep/comm/shm/element.h"

namespace lockstep::comm {

/// How many elements of which type an item of a tensor is.
struct ItemElements {
  shm::ElementType type;
  std::size_t per_item;
};

/// For what only moves: every dtype, those without an element type as bytes.
[[nodiscard]] ItemElements moved_elements(at::ScalarType dtype);
/// For what is combined: complex numbers are pairs. \throws c10::ValueError where `op` of `dtype`
/// is not defined.
[[nodiscard]] ItemElements reduced_elements(at::ScalarType dtype, const c10d::ReduceOp& op);
/// \throws c10::ValueError for one that is not implemented.
[[nodiscard]] shm::Reduction reduction_of(const c10d::ReduceOp& op);

/// \throws c10::ValueError unless `tensor` is a dense one of the CPU.
void check_dense(const at::Tensor& tensor);
/// The same for a list of one dtype, which has `size` members.
void check_list(const std::vector<at::Tensor>& tensors, std::size_t size, at::ScalarType dtype);

/// Contiguous memory for the tensors of one call, and what must be copied back at its end.
class StagedTensors {
 public:
  [[nodiscard]] const void* input(const at::Tensor& tensor);
  [[nodiscard]] void* output(const at::Tensor& tensor);
  /// Read and overwritten.
  [[nodiscard]] void* in_place(const at::Tensor& tensor);
  /// All tensors one after another; without a copy where they lie so already.
  [[nodiscard]] const void* packed_input(const std::vector<at::Tensor>& tensors);
  [[nodiscard]] void* packed_output(const std::vector<at::Tensor>& tensors);

  [[nodiscard]] bool has_copies() const { return !copies_.empty(); }
  /// Copies results to where they belong. Call it once.
  void copy_back();

 private:
  void* keep(at::Tensor tensor);

  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
};

}  // namespace lockstep::comm
