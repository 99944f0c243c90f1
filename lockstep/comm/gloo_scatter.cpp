#include "lockstep/comm/gloo_scatter.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "lockstep/comm/shm/reduce_kernel.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {

ScatterWork::ScatterWork(c10d::Backend& backend, at::Tensor output, const at::Tensor& input,
                         ReduceOp op)
    : output_(std::move(output)), op_(op) {
  const memory::Scope staging(memory::Category::communication);
  terms_ = at::empty({backend.getSize(), output_.numel()}, output_.options());
  auto received = terms_.view(-1);
  auto sent = input;
  std::vector<std::int64_t> even;
  exchange_ = backend.alltoall_base(received, sent, even, even);
}

void ScatterWork::finish() {
  std::vector<const void*> rows;
  const auto row_bytes = static_cast<std::int64_t>(output_.nbytes());
  const auto* const first = static_cast<const std::byte*>(terms_.const_data_ptr());
  for (std::int64_t r = 0; r < terms_.size(0); ++r) rows.push_back(first + r * row_bytes);
  const auto reduce = shm::kernels().reduce(element_type(output_.scalar_type()), reduction_of(op_));
  reduce(output_.mutable_data_ptr(), rows.data(), static_cast<int>(rows.size()),
         static_cast<std::size_t>(output_.numel()));
}

}  // namespace lockstep::comm
