// n ranks; count elements of the tensor; piece = tree_piece(count, n).
#include "lockstep/comm/stream_tree.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/tree_sum.h"

namespace lockstep::comm {
namespace {

/// \param terms [n, ...], overwritten. \returns [...] in their dtype, contiguous.
at::Tensor sum_of(const at::Tensor& terms) {
  if (!adds_in_fp32(terms.scalar_type())) return tree_sum_rows(terms);
  return tree_sum_rows(terms.to(at::kFloat)).to(terms.scalar_type());
}

}  // namespace

c10::intrusive_ptr<c10d::Work> tree_all_reduce(c10d::Backend& backend, const at::Tensor& flat,
                                               const After& after) {
  const at::NoGradGuard no_autograd;
  const std::int64_t n = backend.getSize();
  const std::int64_t count = flat.numel();
  if (static_cast<std::int64_t>(flat.nbytes()) <= kTreeSmallBytes) {
    const auto terms = at::empty({n, count}, flat.options());
    auto gathered = terms.view(-1);
    auto own = flat;
    auto gather = backend._allgather_base(gathered, own);
    after(*gather);
    flat.copy_(sum_of(terms));
    return gather;
  }
  const std::int64_t piece = tree_piece(count, n);
  const bool padded = piece * n != count;
  at::Tensor all = flat;  // [n * piece]
  if (padded) {
    all = at::zeros({n * piece}, flat.options());
    all.narrow(0, 0, count).copy_(flat);
  }
  // [n, piece]: this rank's piece as every rank has it
  auto terms = at::empty({n * piece}, flat.options());
  std::vector<std::int64_t> even;
  const auto exchange = backend.alltoall_base(terms, all, even, even);
  after(*exchange);
  at::Tensor sum = sum_of(terms.view({n, piece}));
  auto gather = backend._allgather_base(all, sum);
  after(*gather);
  if (padded) flat.copy_(all.narrow(0, 0, count));
  return gather;
}

}  // namespace lockstep::comm
