// bfloat16 and float16 as numbers. Internal linkage: see reduce_kernel_impl.h.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::comm::shm {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float widen(Bf16 value) { return float_of(static_cast<std::uint32_t>(value.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline Bf16 narrow_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded)};
}

inline float widen(F16 value) {
#if defined(__F16C__)
  return _cvtsh_ss(value.bits);
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return float_of(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  if (magnitude >= 0x400U) return float_of(sign | ((magnitude << 13) + (112U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;  // exact
  return float_of(sign | bits_of(subnormal));
#endif
}

inline F16 narrow_f16(float value) {
#if defined(__F16C__)
  return {static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
#else
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {  // NaN keeps its upper bits
    return {static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU))};
  }
  if (magnitude >= 0x47800000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 makes the hardware round at bit 2^-24
    const std::uint32_t shifted = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    return {static_cast<std::uint16_t>(sign | shifted)};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t rounded = (magnitude - (112U << 23) + 0xfffU + odd) >> 13;
  return {static_cast<std::uint16_t>(sign | rounded)};
#endif
}

}  // namespace
}  // namespace lockstep::comm::shm
