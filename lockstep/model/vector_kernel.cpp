#include "lockstep/model/vector_kernel.h"

#include <bit>
#include <cmath>

// cmake/Layers.cmake compiles this file without fused multiply-add, so that every instruction set gives
// the same bits, and without the warning that vectors of 64 bytes have no fixed calling convention.
namespace lockstep::model {
namespace {

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

constexpr std::int64_t kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));
using Halves = std::uint16_t __attribute__((vector_size(32)));

LOCKSTEP_INLINE Floats all(float value) { return Floats{} + value; }
LOCKSTEP_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }

LOCKSTEP_INLINE Floats load(const float* in) {
  Floats value;
  __builtin_memcpy(&value, in, sizeof value);
  return value;
}

LOCKSTEP_INLINE Floats load(const Bf16Bits* in) {
  Halves halves;
  __builtin_memcpy(&halves, in, sizeof halves);
  return std::bit_cast<Floats>(__builtin_convertvector(halves, Words) << 16);
}

LOCKSTEP_INLINE void put(Floats value, float* out) { __builtin_memcpy(out, &value, sizeof value); }

/// Round to nearest even; a NaN stays a NaN.
LOCKSTEP_INLINE void put(Floats value, Bf16Bits* out) {
  const Words bits = std::bit_cast<Words>(value);
  const Words rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const Words quiet_nan = (bits >> 16) | 0x40U;
  const Words chosen = (bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded;
  const Halves halves = __builtin_convertvector(chosen, Halves);
  __builtin_memcpy(out, &halves, sizeof halves);
}

/// exp to about 2 units in the last place: 2^n by the exponent bits, e^r by the Taylor polynomial of
/// degree 6 for |r| <= ln(2) / 2 (Muller, Elementary Functions, chapter 11). Saturates outside +-87.
LOCKSTEP_INLINE Floats exp_of(Floats x) {
  x = x < -87.0F ? all(-87.0F) : x;
  x = x > 87.0F ? all(87.0F) : x;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 x 2^23: adding it rounds to a whole number
  const Floats shifted = x * 1.44269504F + kRoundToInteger;
  const Floats n = shifted - kRoundToInteger;
  const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln(2) in two parts
  Floats p = r * (1.0F / 720) + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = (p * r * r + r) + 1.0F;
  const Ints exponent = std::bit_cast<Ints>(shifted) - std::bit_cast<std::int32_t>(kRoundToInteger);
  return p * std::bit_cast<Floats>((exponent + 127) << 23);
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

/// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
LOCKSTEP_INLINE Floats gelu_gate(Floats x) {
  const Floats u = x * (x * x * (kGeluScale * kGeluCubic) + kGeluScale);
  return 1.0F / (exp_of(u * -2.0F) + 1.0F);
}

LOCKSTEP_INLINE Floats gelu_slope(Floats x) {
  const Floats gate = gelu_gate(x);
  const Floats slope_u = x * x * (3 * kGeluScale * kGeluCubic) + kGeluScale;
  return gate + x * gate * (1.0F - gate) * slope_u * 2.0F;
}

/// body(place, at) for whole vectors, and once more on padded copies for what is left over.
template <typename T, typename Op>
LOCKSTEP_INLINE void for_each(const T* a, const T* b, T* out, std::int64_t count, Op op) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) put(op(load(a + i), load(b + i)), out + i);
  if (i == count) return;
  T a_rest[kLanes] = {};
  T b_rest[kLanes] = {};
  T out_rest[kLanes];
  for (std::int64_t j = i; j < count; ++j) {
    a_rest[j - i] = a[j];
    b_rest[j - i] = b[j];
  }
  put(op(load(a_rest), load(b_rest)), out_rest);
  for (std::int64_t j = i; j < count; ++j) out[j] = out_rest[j - i];
}

template <typename T>
LOCKSTEP_INLINE void gelu_loop(const T* in, T* out, std::int64_t count) {
  for_each(in, in, out, count,
           [](Floats x, Floats) __attribute__((always_inline)) { return x * gelu_gate(x); });
}

template <typename T>
LOCKSTEP_INLINE void gelu_backward_loop(const T* in, const T* grad, T* out, std::int64_t count) {
  for_each(in, grad, out, count,
           [](Floats x, Floats g) __attribute__((always_inline)) { return g * gelu_slope(x); });
}

template <typename T>
LOCKSTEP_INLINE void softmax_loop(const T* row, float log_sum, float scale, T* out,
                                  std::int64_t count) {
  for_each(row, row, out, count, [=](Floats x, Floats) __attribute__((always_inline)) {
    return exp_of(x - log_sum) * scale;
  });
}

/// The vector at `i`; lanes past the end hold the lowest float.
template <typename T>
LOCKSTEP_INLINE Floats load_or_lowest(const T* row, std::int64_t i, std::int64_t count) {
  if (i + kLanes <= count) return load(row + i);
  Floats value = all(-3.0e38F);
  for (std::int64_t j = i; j < count; ++j) value[j - i] = to_float(row[j]);
  return value;
}

template <typename T>
LOCKSTEP_INLINE float log_sum_exp_loop(const T* row, std::int64_t count) {
  Floats most = all(-3.0e38F);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    most = larger(load_or_lowest(row, i, count), most);
  }
  float top = most[0];
  for (std::int64_t j = 1; j < kLanes; ++j) top = most[j] > top ? most[j] : top;
  Floats sums = all(0);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    sums += exp_of(load_or_lowest(row, i, count) - top);
  }
  // Padding lanes hold exp(-87): below half a unit in the last place of a sum that is at least 1.
  float sum = 0;
  for (std::int64_t j = 0; j < kLanes; ++j) sum += sums[j];
  return top + std::log(sum);
}

/// One set of entry points per instruction set, chosen once; all give the same bits.
template <typename T>
struct Kernels {
  void (*gelu)(const T*, T*, std::int64_t);
  void (*gelu_grad)(const T*, const T*, T*, std::int64_t);
  float (*log_sum)(const T*, std::int64_t);
  void (*softmax)(const T*, float, float, T*, std::int64_t);
};

#define LOCKSTEP_ENTRY_POINTS(name, target)                                               \
  template <typename T>                                                                   \
  struct name {                                                                           \
    target static void gelu(const T* in, T* out, std::int64_t n) { gelu_loop(in, out, n); } \
    target static void gelu_grad(const T* in, const T* grad, T* out, std::int64_t n) {    \
      gelu_backward_loop(in, grad, out, n);                                               \
    }                                                                                     \
    target static float log_sum(const T* row, std::int64_t n) {                           \
      return log_sum_exp_loop(row, n);                                                    \
    }                                                                                     \
    target static void softmax(const T* row, float log_sum, float scale, T* out,          \
                               std::int64_t n) {                                          \
      softmax_loop(row, log_sum, scale, out, n);                                          \
    }                                                                                     \
    static constexpr Kernels<T> table() { return {gelu, gelu_grad, log_sum, softmax}; }   \
  }

LOCKSTEP_ENTRY_POINTS(Portable, );
#if defined(__x86_64__)
LOCKSTEP_ENTRY_POINTS(Avx2, [[gnu::target("avx2")]]);
#if defined(__clang__)
LOCKSTEP_ENTRY_POINTS(Avx512, [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]);
#else
LOCKSTEP_ENTRY_POINTS(
    Avx512, [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]]);
#endif
#endif

template <typename T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      return Avx512<T>::table();
    }
    if (__builtin_cpu_supports("avx2")) return Avx2<T>::table();
#endif
    return Portable<T>::table();
  }();
  return chosen;
}

}  // namespace

void gelu_forward(const float* in, float* out, std::int64_t count) {
  kernels<float>().gelu(in, out, count);
}
void gelu_forward(const Bf16Bits* in, Bf16Bits* out, std::int64_t count) {
  kernels<Bf16Bits>().gelu(in, out, count);
}

void gelu_backward(const float* in, const float* grad, float* out, std::int64_t count) {
  kernels<float>().gelu_grad(in, grad, out, count);
}
void gelu_backward(const Bf16Bits* in, const Bf16Bits* grad, Bf16Bits* out, std::int64_t count) {
  kernels<Bf16Bits>().gelu_grad(in, grad, out, count);
}

float log_sum_exp(const float* row, std::int64_t count) {
  return kernels<float>().log_sum(row, count);
}
float log_sum_exp(const Bf16Bits* row, std::int64_t count) {
  return kernels<Bf16Bits>().log_sum(row, count);
}

void scaled_softmax(const float* row, float log_sum, float scale, float* out, std::int64_t count) {
  kernels<float>().softmax(row, log_sum, scale, out, count);
}
void scaled_softmax(const Bf16Bits* row, float log_sum, float scale, Bf16Bits* out,
                    std::int64_t count) {
  kernels<Bf16Bits>().softmax(row, log_sum, scale, out, count);
}

float to_float(float value) { return value; }
float to_float(Bf16Bits value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

void store(float value, float* out) { *out = value; }
void store(float value, Bf16Bits* out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  *out = static_cast<Bf16Bits>(nan ? (bits >> 16) | 0x40U : rounded);
}

}  // namespace lockstep::model
