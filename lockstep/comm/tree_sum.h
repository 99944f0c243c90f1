// The balanced binary tree over ranks in which Order::tree adds.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::comm {

// Up to here every rank gathers everything and adds it up: one exchange instead of two, for n times
// the bytes.
inline constexpr std::int64_t kTreeSmallBytes = 16 * 1024;

/// Elements of the part of `count` that each of n ranks adds up: ceil(count / n), padded to whole
/// cache lines where the ranks' parts do not come out even.
[[nodiscard]] std::int64_t tree_piece(std::int64_t count, std::int64_t n);

/// Adds the rows of `terms` [n, count] as ((r0+r1)+(r2+r3))+..., each sum rounded to the dtype, and
/// returns row 0, which holds it; the other rows are overwritten with partial sums.
/// \param terms contiguous; n a power of two.
[[nodiscard]] at::Tensor tree_sum_rows(const at::Tensor& terms);

}  // namespace lockstep::comm
