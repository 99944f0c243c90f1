#include "lockstep/parallel/exchange/orthogonal_rows.h"

#include <cmath>

namespace lockstep::parallel {
namespace {

constexpr double kInTheSpan = 1e-4;  // of the norm before: what is left is rounding

double dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void subtract(float* from, const float* direction, double factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    from[i] = static_cast<float>(from[i] - factor * direction[i]);
  }
}

}  // namespace

void make_rows_orthonormal(const at::Tensor& rows) {
  const std::int64_t count = rows.size(1);
  float* const first = rows.mutable_data_ptr<float>();
  for (std::int64_t r = 0; r < rows.size(0); ++r) {
    float* const row = first + r * count;
    const double before = std::sqrt(dot(row, row, count));
    for (int pass = 0; pass < 2; ++pass) {  // once more removes what rounding left
      for (std::int64_t other = 0; other < r; ++other) {
        const float* const direction = first + other * count;
        subtract(row, direction, dot(row, direction, count), count);
      }
    }
    const double norm = std::sqrt(dot(row, row, count));
    const bool is_new = !(norm <= kInTheSpan * before);  // NaN stays to be seen
    for (std::int64_t i = 0; i < count; ++i) {
      row[i] = is_new ? static_cast<float>(row[i] / norm) : 0.0F;
    }
  }
}

}  // namespace lockstep::parallel
