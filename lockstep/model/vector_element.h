// Elements of the vector loops: how each type is read into fp32 and written back.
#pragma once
#include <bit>
#include <cstdint>

#include "lockstep/base/float16.h"

namespace lockstep::model {

/// bf16 values travel as their upper 16 bits of an fp32.
using Bf16Bits = std::uint16_t;

// Loops must be inlined into the entry point of an instruction set to be compiled for it.
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

// Before a loop over sixteen lanes: g++ would take it apart before it made one vector of it.
#if defined(__clang__)
#define LOCKSTEP_KEEP_LOOP
#else
#define LOCKSTEP_KEEP_LOOP _Pragma("GCC unroll 1")
#endif

// Attributes of the entry points of an instruction set; elsewhere all are the portable ones.
#if !defined(__x86_64__)
#define LOCKSTEP_AVX2
#define LOCKSTEP_AVX512
#else
#define LOCKSTEP_AVX2 [[gnu::target("avx2")]]
#if defined(__clang__)
#define LOCKSTEP_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
#else
#define LOCKSTEP_AVX512 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]]
#endif
#endif

/// The table() of the entry points that suit this CPU best; all give the same bits.
template <typename Portable, typename Avx2, typename Avx512>
auto best_table() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return Avx512::table();
  }
  if (__builtin_cpu_supports("avx2")) return Avx2::table();
#endif
  return Portable::table();
}

LOCKSTEP_INLINE float value_of(float value) { return value; }
LOCKSTEP_INLINE float value_of(Bf16Bits value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
LOCKSTEP_INLINE float value_of(Fp16Bits value) { return to_fp32(value); }

LOCKSTEP_INLINE void put(float value, float* out) { *out = value; }

/// Round to nearest even; a NaN stays a NaN.
LOCKSTEP_INLINE void put(float value, Bf16Bits* out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  *out = static_cast<Bf16Bits>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

/// The same; beyond 65504 it becomes infinite.
LOCKSTEP_INLINE void put(float value, Fp16Bits* out) { *out = to_fp16(value); }

}  // namespace lockstep::model
