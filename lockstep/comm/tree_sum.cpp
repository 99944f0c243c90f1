#include "lockstep/comm/tree_sum.h"

#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {

std::int64_t tree_piece(std::int64_t count, std::int64_t n) {
  constexpr std::int64_t kLineElements = 64;
  const std::int64_t even = (count + n - 1) / n;
  if (even * n == count) return even;
  return (even + kLineElements - 1) / kLineElements * kLineElements;
}

at::Tensor tree_sum_rows(const at::Tensor& terms) {
  const std::int64_t n = terms.size(0);
  LOCKSTEP_CHECK(n > 0 && (n & (n - 1)) == 0, "a tree sum needs a power of two terms");
  const at::NoGradGuard no_autograd;
  for (std::int64_t stride = 1; stride < n; stride *= 2) {
    for (std::int64_t row = 0; row < n; row += 2 * stride) {
      terms[row].add_(terms[row + stride]);
    }
  }
  return terms[0];
}

}  // namespace lockstep::comm
