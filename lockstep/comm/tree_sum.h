// The balanced binary tree over ranks in which Order::tree adds.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep::comm {

/// Adds the rows of `terms` [n, count] as ((r0+r1)+(r2+r3))+..., each sum rounded to the dtype, and
/// returns row 0, which holds it; the other rows are overwritten with partial sums.
/// \param terms contiguous; n a power of two.
[[nodiscard]] at::Tensor tree_sum_rows(const at::Tensor& terms);

}  // namespace lockstep::comm
