// The vector loops under fused_ops.h: plain arrays, one thread, the same bits on every instruction
// set.
#pragma once
#include <cstdint>

#include "lockstep/model/stats/families.h"

namespace lockstep::model {

/// bf16 values travel as their upper 16 bits of an fp32.
using Bf16Bits = std::uint16_t;

/// out[i] = gelu(in[i]), tanh form (Hendrycks and Gimpel 2016).
void gelu_forward(const float* in, float* out, std::int64_t count);
void gelu_forward(const Bf16Bits* in, Bf16Bits* out, std::int64_t count);

/// out[i] = grad[i] x gelu'(in[i]).
void gelu_backward(const float* in, const float* grad, float* out, std::int64_t count);
void gelu_backward(const Bf16Bits* in, const Bf16Bits* grad, Bf16Bits* out, std::int64_t count);

/// log(sum(exp(row[i]))), computed in fp32.
[[nodiscard]] float log_sum_exp(const float* row, std::int64_t count);
[[nodiscard]] float log_sum_exp(const Bf16Bits* row, std::int64_t count);

/// out[i] = scale x exp(row[i] - log_sum).
void scaled_softmax(const float* row, float log_sum, float scale, float* out, std::int64_t count);
void scaled_softmax(const Bf16Bits* row, float log_sum, float scale, Bf16Bits* out,
                    std::int64_t count);

/// Scores of `rows` consecutive queries, the first of which may attend to `first` + 1 keys, against
/// `width` keys; width <= kMostAttended. Rows of many such matrices lie one after another.
struct CausalShape {
  std::int64_t rows = 0;
  std::int64_t first = 0;
  std::int64_t width = 0;
};

/// Rows [begin, end), in place: the columns a query may attend to become softmax(scale x scores),
/// the others 0.
void causal_softmax(float* scores, std::int64_t begin, std::int64_t end, const CausalShape& shape,
                    float scale);
void causal_softmax(Bf16Bits* scores, std::int64_t begin, std::int64_t end,
                    const CausalShape& shape, float scale);

/// Gradients of the scores from those of causal_softmax's result `shares`, in place of `grad`.
void causal_softmax_backward(const float* shares, float* grad, std::int64_t begin, std::int64_t end,
                             const CausalShape& shape, float scale);
void causal_softmax_backward(const Bf16Bits* shares, Bf16Bits* grad, std::int64_t begin,
                             std::int64_t end, const CausalShape& shape, float scale);

[[nodiscard]] float to_float(float value);
[[nodiscard]] float to_float(Bf16Bits value);
void store(float value, float* out);
void store(float value, Bf16Bits* out);

}  // namespace lockstep::model
