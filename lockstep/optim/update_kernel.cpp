#include "lockstep/optim/update_kernel.h"

#include <bit>
#include <cmath>

#include "lockstep/base/float16.h"

// cmake/Layers.cmake compiles this file without fused multiply-add (which pairs a compiler fuses
// differs between the loops it makes of one source) and with a sqrt that sets no errno (else it is
// not a vector instruction).
namespace lockstep::optim {
namespace {

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

using Doubles = double __attribute__((vector_size(64)));  // 8 lanes
using Floats = float __attribute__((vector_size(32), aligned(4)));

/// Round to nearest even; a NaN stays a (quiet) NaN.
LOCKSTEP_INLINE std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

/// What the compute weights of a view are.
enum class Copy : std::uint8_t { none, bf16, fp16 };

template <Copy kCopy>
LOCKSTEP_INLINE std::uint16_t narrowed(float value) {
  if constexpr (kCopy == Copy::fp16) return static_cast<std::uint16_t>(to_fp16(value));
  return to_bf16(value);
}

template <bool kNesterov>
LOCKSTEP_INLINE void sgd_momentum(float& master, float g, float& buffer, const RuleConstants& k,
                                  bool first) {
  g = g + k.weight_decay * master;
  const float kept = first ? 0.0F : k.momentum * buffer;
  buffer = kept + g;
  const float direction = kNesterov ? g + k.momentum * buffer : buffer;
  master = master - k.lr * direction;
}

LOCKSTEP_INLINE void adamw(float& master, float g, float& moment1, float& moment2,
                           const RuleConstants& k) {
  const float m = moment1 + k.blend1 * (g - moment1);
  const float v = moment2 * k.beta2 + k.blend2 * (g * g);
  const float denominator = std::sqrt(v) / k.root_correction2 + k.eps;
  master = master * k.decay - k.step_size * (m / denominator);
  moment1 = m;
  moment2 = v;
}

/// One block. The pointers are parameters, because only there does `restrict` hold for the loop.
template <Rule kRule, Copy kCopy>
LOCKSTEP_INLINE void update_block(float* __restrict master, const float* __restrict gradient,
                                  float* __restrict moment1, float* __restrict moment2,
                                  std::uint16_t* __restrict compute, const RuleConstants& k) {
  for (std::int64_t i = 0; i < kBlockElements; ++i) {
    const float g = gradient[i] * k.gradient_scale;
    if constexpr (kRule == Rule::sgd) {
      master[i] = master[i] - k.lr * (g + k.weight_decay * master[i]);
    } else if constexpr (kRule == Rule::adamw) {
      adamw(master[i], g, moment1[i], moment2[i], k);
    } else {
      sgd_momentum<kRule == Rule::sgd_nesterov>(master[i], g, moment1[i], k, k.first);
    }
    if constexpr (kCopy != Copy::none) compute[i] = narrowed<kCopy>(master[i]);
  }
}

template <Rule kRule, Copy kCopy>
LOCKSTEP_INLINE void update_loop(const UpdateView& view, const RuleConstants& constants) {
  const RuleConstants k = constants;
  for (std::int64_t at = 0; at < view.count; at += kBlockElements) {
    update_block<kRule, kCopy>(view.master + at, view.gradient + at, view.moment1 + at,
                               view.moment2 + at, view.compute + at, k);
  }
}

template <Rule kRule>
LOCKSTEP_INLINE void update_as(const UpdateView& view, const RuleConstants& constants) {
  if (view.compute == nullptr) {
    update_loop<kRule, Copy::none>(view, constants);
  } else if (view.compute_type == config::Dtype::fp16) {
    update_loop<kRule, Copy::fp16>(view, constants);
  } else {
    update_loop<kRule, Copy::bf16>(view, constants);
  }
}

LOCKSTEP_INLINE void update_any(Rule rule, const UpdateView& view, const RuleConstants& constants) {
  switch (rule) {
    case Rule::sgd:
      return update_as<Rule::sgd>(view, constants);
    case Rule::sgd_momentum:
      return update_as<Rule::sgd_momentum>(view, constants);
    case Rule::sgd_nesterov:
      return update_as<Rule::sgd_nesterov>(view, constants);
    case Rule::adamw:
      return update_as<Rule::adamw>(view, constants);
  }
}

/// Each product of two fp32 values is exact in fp64, so fusing could not change it.
LOCKSTEP_INLINE void squares_loop(double* lanes, const float* gradient, std::int64_t count,
                                  float scale) {
  Doubles low;
  Doubles high;
  __builtin_memcpy(&low, lanes, sizeof low);
  __builtin_memcpy(&high, lanes + 8, sizeof high);
  for (std::int64_t at = 0; at < count; at += kNormLanes) {
    const auto* run = reinterpret_cast<const Floats*>(gradient + at);
    const Doubles a = __builtin_convertvector(run[0] * scale, Doubles);
    const Doubles b = __builtin_convertvector(run[1] * scale, Doubles);
    low += a * a;
    high += b * b;
  }
  __builtin_memcpy(lanes, &low, sizeof low);
  __builtin_memcpy(lanes + 8, &high, sizeof high);
}

LOCKSTEP_INLINE void add_loop(float* __restrict into, const float* __restrict from,
                              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
}

LOCKSTEP_INLINE float widened(float value) { return value; }
LOCKSTEP_INLINE float widened(Fp16Bits value) { return to_fp32(value); }

/// \returns the largest magnitude met, as bits: kFp32Infinity and more are not finite.
template <bool kAdd, typename T>
LOCKSTEP_INLINE std::uint32_t take_loop(float* __restrict into, const T* __restrict from,
                                        std::int64_t count, float factor) {
  std::uint32_t worst = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = widened(from[i]);
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
    worst = magnitude > worst ? magnitude : worst;
    into[i] = kAdd ? into[i] + value * factor : value * factor;
  }
  return worst;
}

template <typename T>
LOCKSTEP_INLINE std::uint32_t take_any(float* into, const T* from, std::int64_t count, float factor,
                                       bool add) {
  return add ? take_loop<true>(into, from, count, factor)
             : take_loop<false>(into, from, count, factor);
}

/// One set of entry points per instruction set, chosen once; all give the same bits.
struct Kernels {
  void (*update)(Rule, const UpdateView&, const RuleConstants&);
  void (*squares)(double*, const float*, std::int64_t, float);
  void (*add)(float*, const float*, std::int64_t);
  std::uint32_t (*take)(float*, const float*, std::int64_t, float, bool);
  std::uint32_t (*take_fp16)(float*, const Fp16Bits*, std::int64_t, float, bool);
};

constexpr Kernels kPortable{
    [](Rule rule, const UpdateView& v, const RuleConstants& k) { update_any(rule, v, k); },
    [](double* l, const float* g, std::int64_t n, float s) { squares_loop(l, g, n, s); },
    [](float* into, const float* from, std::int64_t n) { add_loop(into, from, n); },
    [](float* into, const float* from, std::int64_t n, float f, bool add) {
      return take_any(into, from, n, f, add);
    },
    [](float* into, const Fp16Bits* from, std::int64_t n, float f, bool add) {
      return take_any(into, from, n, f, add);
    }};

#if defined(__x86_64__)
#define LOCKSTEP_AVX2 [[gnu::target("avx2")]]
#if defined(__clang__)
#define LOCKSTEP_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
#else
#define LOCKSTEP_AVX512 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]]
#endif

LOCKSTEP_AVX2 void update_avx2(Rule rule, const UpdateView& view, const RuleConstants& k) {
  update_any(rule, view, k);
}
LOCKSTEP_AVX2 void squares_avx2(double* l, const float* g, std::int64_t n, float scale) {
  squares_loop(l, g, n, scale);
}
LOCKSTEP_AVX2 void add_avx2(float* into, const float* from, std::int64_t n) {
  add_loop(into, from, n);
}
template <typename T>
LOCKSTEP_AVX2 std::uint32_t take_avx2(float* into, const T* from, std::int64_t n, float factor,
                                      bool add) {
  return take_any(into, from, n, factor, add);
}
LOCKSTEP_AVX512 void update_avx512(Rule rule, const UpdateView& view, const RuleConstants& k) {
  update_any(rule, view, k);
}
LOCKSTEP_AVX512 void squares_avx512(double* l, const float* g, std::int64_t n, float scale) {
  squares_loop(l, g, n, scale);
}
LOCKSTEP_AVX512 void add_avx512(float* into, const float* from, std::int64_t n) {
  add_loop(into, from, n);
}
template <typename T>
LOCKSTEP_AVX512 std::uint32_t take_avx512(float* into, const T* from, std::int64_t n, float factor,
                                          bool add) {
  return take_any(into, from, n, factor, add);
}

Kernels best_kernels() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return {update_avx512, squares_avx512, add_avx512, take_avx512<float>, take_avx512<Fp16Bits>};
  }
  if (__builtin_cpu_supports("avx2")) {
    return {update_avx2, squares_avx2, add_avx2, take_avx2<float>, take_avx2<Fp16Bits>};
  }
  return kPortable;
}
#else
Kernels best_kernels() { return kPortable; }
#endif

const Kernels& kernels() {
  static const Kernels best = best_kernels();
  return best;
}

}  // namespace

void update_blocks(Rule rule, const UpdateView& view, const RuleConstants& constants) {
  kernels().update(rule, view, constants);
}

void add_squares(double* lanes, const float* gradient, std::int64_t count, float scale) {
  kernels().squares(lanes, gradient, count, scale);
}

void add_elements(float* into, const float* from, std::int64_t count) {
  kernels().add(into, from, count);
}

std::uint32_t take_elements(float* into, const float* from, std::int64_t count, float factor,
                            bool add) {
  return kernels().take(into, from, count, factor, add);
}

std::uint32_t take_elements(float* into, const Fp16Bits* from, std::int64_t count, float factor,
                            bool add) {
  return kernels().take_fp16(into, from, count, factor, add);
}

}  // namespace lockstep::optim
