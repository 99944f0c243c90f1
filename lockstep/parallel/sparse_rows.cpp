#include "lockstep/parallel/sparse_rows.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/optim/update.h"

namespace lockstep::parallel {

bool has_sparse_rows(const at::Tensor& gradient, const at::Tensor& parameter) {
  return gradient.layout() == at::kSparse && gradient.sparse_dim() == 1 &&
         parameter.is_contiguous() && gradient.sizes() == parameter.sizes();
}

bool add_rows(std::span<float> into, const at::Tensor& gradient, float factor) {
  const at::Tensor rows = gradient._indices().reshape({-1}).contiguous();    // [entries]
  const at::Tensor values = gradient._values().to(at::kFloat).contiguous();  // [entries,...]
  const std::int64_t entries = rows.numel();
  if (entries == 0) return true;
  const std::int64_t width = values.numel() / entries;
  const std::int64_t* row = rows.const_data_ptr<std::int64_t>();
  const float* value = values.const_data_ptr<float>();
  const auto most = static_cast<std::int64_t>(into.size()) / std::max<std::int64_t>(1, width);
  bool finite = true;
  for (std::int64_t i = 0; i < entries; ++i) {
    LOCKSTEP_CHECK(row[i] >= 0 && row[i] < most, "a sparse gradient names a row that is not there");
    finite = optim::take_gradient(into.data() + row[i] * width, value + i * width, width, factor,
                                  /*add=*/true) &&
             finite;
  }
  return finite;
}

}  // namespace lockstep::parallel
