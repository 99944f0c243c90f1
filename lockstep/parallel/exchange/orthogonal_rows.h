// Directions for PowerSGD.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// Gram and Schmidt over the rows of `rows` [r,n] fp32, in place; a row that lies in the span of
/// those before it becomes 0. The same input gives the same bits everywhere.
void make_rows_orthonormal(const at::Tensor& rows);

}  // namespace lockstep::parallel
