// Gradients that name the rows they are of, as at::embedding(..., sparse = true) makes them.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>

namespace lockstep::parallel {

/// `gradient` is sparse in its first dim alone and `parameter` has its rows one after the other:
/// add_rows() takes it.
[[nodiscard]] bool has_sparse_rows(const at::Tensor& gradient, const at::Tensor& parameter);

/// into[row] += factor x value for every row that stands in `gradient`, in fp32; a row that stands
/// several times is added as often. Nothing of the size of `into` is made or read.
/// \returns whether all values were finite.
[[nodiscard]] bool add_rows(std::span<float> into, const at::Tensor& gradient, float factor);

}  // namespace lockstep::parallel
