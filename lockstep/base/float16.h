// fp16 (IEEE 754 binary16) to and from fp32, without branches, so that a loop over them becomes
// vector code of any instruction set and gives the same bits on all of them.
#pragma once
#include <bit>
#include <cstdint>

namespace lockstep {

/// An fp16 value as its bits; a type of its own, because bf16 bits are a plain std::uint16_t.
enum class Fp16Bits : std::uint16_t {};

inline constexpr std::uint32_t kFp32Infinity = 0x7f800000U;  // magnitudes above it are NaN

/// Rounds to nearest, ties to even: from 65520 on infinity, below 2^-14 subnormal. A NaN stays one
/// (quiet, with its upper bits), as the F16C instructions do it.
[[gnu::always_inline]] inline Fp16Bits to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + odd) >> 13;
  // Adding 0.5 makes the hardware round at 2^-24, the last place of a subnormal fp16.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  std::uint32_t out = magnitude < (113U << 23) ? subnormal : normal;
  out = magnitude >= (143U << 23) ? 0x7c00U : out;  // 2^16 and more; 65520 carries into infinity
  out = magnitude > kFp32Infinity ? nan : out;
  return static_cast<Fp16Bits>(out | sign);
}

/// Exact.
[[gnu::always_inline]] inline float to_fp32(Fp16Bits value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  const std::uint32_t normal = (magnitude << 13) + (112U << 23);
  // A subnormal gets the exponent of 2^-14 and an implicit one that is taken off again.
  const float lifted = std::bit_cast<float>((magnitude << 13) + (113U << 23));
  const auto subnormal = std::bit_cast<std::uint32_t>(lifted - 0x1p-14F);
  std::uint32_t out = magnitude < 0x400U ? subnormal : normal;
  out = magnitude >= 0x7c00U ? normal + (112U << 23) : out;  // infinity and NaN
  return std::bit_cast<float>(out | sign);
}

}  // namespace lockstep
