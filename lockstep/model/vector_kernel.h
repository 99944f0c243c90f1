// The vector loops under fused_ops.h: plain arrays, one thread, the same bits on every instruction
// set.
#pragma once
#include <cstdint>

#include "lockstep/model/stats/families.h"
#include "lockstep/model/vector_element.h"

namespace lockstep::model {

// T is float, Bf16Bits or Fp16Bits; what is computed is fp32.

/// out[i] = gelu(in[i]), tanh form (Hendrycks and Gimpel 2016).
template <typename T>
void gelu_forward(const T* in, T* out, std::int64_t count);

/// out[i] = grad[i] x gelu'(in[i]).
template <typename T>
void gelu_backward(const T* in, const T* grad, T* out, std::int64_t count);

/// log(sum(exp(row[i]))).
template <typename T>
[[nodiscard]] float log_sum_exp(const T* row, std::int64_t count);

/// out[i] = scale x exp(row[i] - log_sum).
template <typename T>
void scaled_softmax(const T* row, float log_sum, float scale, T* out, std::int64_t count);

/// Scores of `rows` consecutive queries, the first of which may attend to `first` + 1 keys, against
/// `width` keys; width <= kMostAttended. Rows of many such matrices lie one after another.
struct CausalShape {
  std::int64_t rows = 0;
  std::int64_t first = 0;
  std::int64_t width = 0;
};

/// Rows [begin, end), in place: the columns a query may attend to become softmax(scale x scores),
/// the others 0.
template <typename T>
void causal_softmax(T* scores, std::int64_t begin, std::int64_t end, const CausalShape& shape,
                    float scale);

/// Gradients of the scores from those of causal_softmax's result `shares`, in place of `grad`.
template <typename T>
void causal_softmax_backward(const T* shares, T* grad, std::int64_t begin, std::int64_t end,
                             const CausalShape& shape, float scale);

template <typename T>
[[nodiscard]] float to_float(T value);
template <typename T>
void store(float value, T* out);

}  // namespace lockstep::model
