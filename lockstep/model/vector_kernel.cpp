#include "lockstep/model/vector_kernel.h"

#include <bit>
#include <cmath>

// cmake/Layers.cmake compiles this file for vector loops and without fused multiply-add, so that
// every instruction set gives the same bits. Loops are plain: the compiler makes vectors of them
// after it has put them into the entry point of an instruction set.
namespace lockstep::model {
namespace {

constexpr std::int64_t kLanes = 16;  // partial results of a row's maximum and sum
constexpr float kLowest = -3.0e38F;

/// exp to about 2 units in the last place: 2^n by the exponent bits, e^r by the Taylor polynomial
/// of degree 6 for |r| <= ln(2) / 2 (Muller, Elementary Functions, chapter 11). Saturates outside
/// +-87.
LOCKSTEP_INLINE float exp_of(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 87.0F ? 87.0F : x;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 x 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504F + kRoundToInteger;
  const float n = shifted - kRoundToInteger;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln(2) in two parts
  float p = r * (1.0F / 720) + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = (p * r * r + r) + 1.0F;
  const std::uint32_t exponent =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRoundToInteger);
  return p * std::bit_cast<float>((exponent + 127U) << 23);
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

/// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
LOCKSTEP_INLINE float gelu_gate(float x) {
  const float u = x * (x * x * (kGeluScale * kGeluCubic) + kGeluScale);
  return 1.0F / (exp_of(u * -2.0F) + 1.0F);
}

LOCKSTEP_INLINE float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float slope_u = x * x * (3 * kGeluScale * kGeluCubic) + kGeluScale;
  return gate + x * gate * (1.0F - gate) * slope_u * 2.0F;
}

template <typename T>
LOCKSTEP_INLINE void gelu_loop(const T* __restrict in, T* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = value_of(in[i]);
    put(x * gelu_gate(x), out + i);
  }
}

template <typename T>
LOCKSTEP_INLINE void gelu_backward_loop(const T* __restrict in, const T* __restrict grad,
                                        T* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    put(value_of(grad[i]) * gelu_slope(value_of(in[i])), out + i);
  }
}

template <typename T>
LOCKSTEP_INLINE void softmax_loop(const T* __restrict row, float log_sum, float scale,
                                  T* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    put(exp_of(value_of(row[i]) - log_sum) * scale, out + i);
  }
}

template <typename T>
LOCKSTEP_INLINE float largest(const T* row, std::int64_t count) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = kLowest;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    LOCKSTEP_KEEP_LOOP
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float x = value_of(row[i + j]);
      lanes[j] = x > lanes[j] ? x : lanes[j];
    }
  }
  float top = kLowest;
  for (; i < count; ++i) top = value_of(row[i]) > top ? value_of(row[i]) : top;
  for (const float lane : lanes) top = lane > top ? lane : top;
  return top;
}

/// lanes[i % kLanes] += term(i), then the lanes in order.
template <typename Term>
LOCKSTEP_INLINE float lane_sum(std::int64_t count, Term term) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    LOCKSTEP_KEEP_LOOP
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  float sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename T>
LOCKSTEP_INLINE float log_sum_exp_loop(const T* row, std::int64_t count) {
  const float top = largest(row, count);
  const float sum = lane_sum(
      count, [&](std::int64_t i)
                 __attribute__((always_inline)) { return exp_of(value_of(row[i]) - top); });
  return top + std::log(sum);
}

template <typename T>
LOCKSTEP_INLINE void causal_softmax_loop(T* scores, std::int64_t begin, std::int64_t end,
                                         const CausalShape& shape, float scale) {
  float powers[kMostAttended];
  for (std::int64_t r = begin; r < end; ++r) {
    T* row = scores + r * shape.width;
    const std::int64_t count = shape.first + r % shape.rows + 1;
    const float top = largest(row, count);
    for (std::int64_t i = 0; i < count; ++i) powers[i] = exp_of((value_of(row[i]) - top) * scale);
    const float inverse =
        1.0F / lane_sum(
                   count, [&](std::int64_t i) __attribute__((always_inline)) { return powers[i]; });
    for (std::int64_t i = 0; i < count; ++i) put(powers[i] * inverse, row + i);
    for (std::int64_t i = count; i < shape.width; ++i) row[i] = T{0};
  }
}

template <typename T>
LOCKSTEP_INLINE void causal_softmax_backward_loop(const T* shares, T* grad, std::int64_t begin,
                                                  std::int64_t end, const CausalShape& shape,
                                                  float scale) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* __restrict p = shares + r * shape.width;
    T* __restrict g = grad + r * shape.width;
    const std::int64_t count = shape.first + r % shape.rows + 1;
    const float mean = lane_sum(
        count, [&](std::int64_t i)
                   __attribute__((always_inline)) { return value_of(p[i]) * value_of(g[i]); });
    for (std::int64_t i = 0; i < count; ++i) {
      put(value_of(p[i]) * (value_of(g[i]) - mean) * scale, g + i);
    }
    for (std::int64_t i = count; i < shape.width; ++i) g[i] = T{0};
  }
}

/// One set of entry points per instruction set, chosen once; all give the same bits.
template <typename T>
struct Kernels {
  void (*gelu)(const T*, T*, std::int64_t);
  void (*gelu_grad)(const T*, const T*, T*, std::int64_t);
  float (*log_sum)(const T*, std::int64_t);
  void (*softmax)(const T*, float, float, T*, std::int64_t);
  void (*causal)(T*, std::int64_t, std::int64_t, const CausalShape&, float);
  void (*causal_grad)(const T*, T*, std::int64_t, std::int64_t, const CausalShape&, float);
};

#define LOCKSTEP_ENTRY_POINTS(name, target)                                                        \
  template <typename T>                                                                            \
  struct name {                                                                                    \
    target static void gelu(const T* in, T* out, std::int64_t n) { gelu_loop(in, out, n); }        \
    target static void gelu_grad(const T* in, const T* grad, T* out, std::int64_t n) {             \
      gelu_backward_loop(in, grad, out, n);                                                        \
    }                                                                                              \
    target static float log_sum(const T* row, std::int64_t n) { return log_sum_exp_loop(row, n); } \
    target static void softmax(const T* row, float log_sum, float scale, T* out, std::int64_t n) { \
      softmax_loop(row, log_sum, scale, out, n);                                                   \
    }                                                                                              \
    target static void causal(T* scores, std::int64_t begin, std::int64_t end,                     \
                              const CausalShape& shape, float scale) {                             \
      causal_softmax_loop(scores, begin, end, shape, scale);                                       \
    }                                                                                              \
    target static void causal_grad(const T* shares, T* grad, std::int64_t begin, std::int64_t end, \
                                   const CausalShape& shape, float scale) {                        \
      causal_softmax_backward_loop(shares, grad, begin, end, shape, scale);                        \
    }                                                                                              \
    static constexpr Kernels<T> table() {                                                          \
      return {gelu, gelu_grad, log_sum, softmax, causal, causal_grad};                             \
    }                                                                                              \
  }

LOCKSTEP_ENTRY_POINTS(Portable, );
LOCKSTEP_ENTRY_POINTS(Avx2, LOCKSTEP_AVX2);
LOCKSTEP_ENTRY_POINTS(Avx512, LOCKSTEP_AVX512);

template <typename T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = best_table<Portable<T>, Avx2<T>, Avx512<T>>();
  return chosen;
}

}  // namespace

template <typename T>
void gelu_forward(const T* in, T* out, std::int64_t count) {
  kernels<T>().gelu(in, out, count);
}

template <typename T>
void gelu_backward(const T* in, const T* grad, T* out, std::int64_t count) {
  kernels<T>().gelu_grad(in, grad, out, count);
}

template <typename T>
float log_sum_exp(const T* row, std::int64_t count) {
  return kernels<T>().log_sum(row, count);
}

template <typename T>
void scaled_softmax(const T* row, float log_sum, float scale, T* out, std::int64_t count) {
  kernels<T>().softmax(row, log_sum, scale, out, count);
}

template <typename T>
void causal_softmax(T* scores, std::int64_t begin, std::int64_t end, const CausalShape& shape,
                    float scale) {
  kernels<T>().causal(scores, begin, end, shape, scale);
}

template <typename T>
void causal_softmax_backward(const T* shares, T* grad, std::int64_t begin, std::int64_t end,
                             const CausalShape& shape, float scale) {
  kernels<T>().causal_grad(shares, grad, begin, end, shape, scale);
}

template <typename T>
float to_float(T value) {
  return value_of(value);
}

template <typename T>
void store(float value, T* out) {
  put(value, out);
}

#define LOCKSTEP_INSTANTIATE(T)                                                            \
  template void gelu_forward(const T*, T*, std::int64_t);                                  \
  template void gelu_backward(const T*, const T*, T*, std::int64_t);                       \
  template float log_sum_exp(const T*, std::int64_t);                                      \
  template void scaled_softmax(const T*, float, float, T*, std::int64_t);                  \
  template void causal_softmax(T*, std::int64_t, std::int64_t, const CausalShape&, float); \
  template void causal_softmax_backward(const T*, T*, std::int64_t, std::int64_t,          \
                                        const CausalShape&, float);                        \
  template float to_float(T);                                                              \
  template void store(float, T*)

LOCKSTEP_INSTANTIATE(float);
LOCKSTEP_INSTANTIATE(Bf16Bits);
LOCKSTEP_INSTANTIATE(Fp16Bits);

}  // namespace lockstep::model
