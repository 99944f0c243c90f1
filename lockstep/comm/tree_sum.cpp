#include "lockstep/comm/tree_sum.h"

#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/reduce_kernel.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {

std::int64_t tree_piece(std::int64_t count, std::int64_t n) {
  constexpr std::int64_t kLineElements = 64;
  const std::int64_t even = (count + n - 1) / n;
  if (even * n == count) return even;
  return (even + kLineElements - 1) / kLineElements * kLineElements;
}

namespace {

/// As shared memory does it: the same tree over the ranks, rounded at its end.
at::Tensor sum_in_fp32(const at::Tensor& terms) {
  std::vector<const void*> rows;
  const auto row_bytes = static_cast<std::int64_t>(terms[0].nbytes());
  auto* const first = static_cast<std::byte*>(terms.mutable_data_ptr());
  for (std::int64_t r = 0; r < terms.size(0); ++r) rows.push_back(first + r * row_bytes);
  const auto reduce = shm::kernels().reduce(element_type(terms.scalar_type()), shm::Reduction::sum);
  reduce(first, rows.data(), static_cast<int>(rows.size()),
         static_cast<std::size_t>(terms.size(1)));
  return terms[0];
}

}  // namespace

bool adds_in_fp32(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

at::Tensor tree_sum_rows(const at::Tensor& terms) {
  const std::int64_t n = terms.size(0);
  const at::NoGradGuard no_autograd;
  if (adds_in_fp32(terms.scalar_type())) return sum_in_fp32(terms);
  LOCKSTEP_CHECK(n > 0 && (n & (n - 1)) == 0, "a tree sum needs a power of two terms");
  for (std::int64_t stride = 1; stride < n; stride *= 2) {
    for (std::int64_t row = 0; row < n; row += 2 * stride) {
      terms[row].add_(terms[row + stride]);
    }
  }
  return terms[0];
}

}  // namespace lockstep::comm
