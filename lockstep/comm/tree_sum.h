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

/// Whether sums of this dtype are taken in fp32 and rounded once at the end: bf16 and fp16.
[[nodiscard]] bool adds_in_fp32(at::ScalarType dtype);

/// Adds the rows of `terms` [n, count] as ((r0+r1)+(r2+r3))+... and returns row 0, which holds the
/// sum; the other rows may be overwritten with partial sums.
/// \param terms contiguous; n a power of two unless adds_in_fp32().
[[nodiscard]] at::Tensor tree_sum_rows(const at::Tensor& terms);

}  // namespace lockstep::comm
