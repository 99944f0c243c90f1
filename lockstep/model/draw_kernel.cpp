#include "lockstep/model/draw_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lockstep/base/rng.h"
#include "lockstep/model/vector_element.h"

// Compiled as vector_kernel.cpp is: plain loops of which the compiler makes vectors, without fused
// multiply-add.
namespace lockstep::model {
namespace {

constexpr std::int64_t kPairs = 16;                       // of a block
constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15ULL;  // of Rng's states

/// ln(x) for normal x > 0: x = 2^n m with m in [sqrt(1/2), sqrt(2)), ln(m) = 2 artanh((m - 1) /
/// (m + 1)) by its series (Muller, Elementary Functions, chapter 11).
LOCKSTEP_INLINE float log_of(float x) {
  constexpr std::uint32_t kRootHalf = 0x3f3504f3U;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto n = static_cast<std::int32_t>(bits - kRootHalf) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(n) << 23));
  const float s = (m - 1.0F) / (m + 1.0F);
  const float s2 = s * s;
  float p = s2 * (2.0F / 9) + 2.0F / 7;
  p = p * s2 + 2.0F / 5;
  p = p * s2 + 2.0F / 3;
  p = p * s2 + 2.0F;
  return static_cast<float>(n) * 0.69314718F + p * s;
}

struct Turn {
  float cosine;
  float sine;
};

/// Of 2 pi v, v in [0, 1): the nearest quarter turn, and the Taylor polynomials for the rest, which
/// is at most an eighth.
LOCKSTEP_INLINE Turn turn_of(float v) {
  const auto quarter = static_cast<std::int32_t>(v * 4.0F + 0.5F);
  const float r = (v - static_cast<float>(quarter) * 0.25F) * 6.2831853F;
  const float r2 = r * r;
  float sine = r2 * (1.0F / 362880) - 1.0F / 5040;
  sine = sine * r2 + 1.0F / 120;
  sine = sine * r2 - 1.0F / 6;
  sine = sine * r2 * r + r;
  float cosine = r2 * (-1.0F / 3628800) + 1.0F / 40320;
  cosine = cosine * r2 - 1.0F / 720;
  cosine = cosine * r2 + 1.0F / 24;
  cosine = cosine * r2 - 0.5F;
  cosine = cosine * r2 + 1.0F;
  const bool is_odd = (quarter & 1) != 0;
  const float x = is_odd ? sine : cosine;
  const float y = is_odd ? cosine : sine;
  return {((quarter + 1) & 2) != 0 ? -x : x, (quarter & 2) != 0 ? -y : y};
}

/// Each value is the same wherever its block begins: one draw a pair, whatever comes after.
LOCKSTEP_INLINE void block_of(std::uint64_t key, float scale, float* __restrict out) {
  float u[kPairs];
  float v[kPairs];
  float cosines[kPairs];
  float sines[kPairs];
  LOCKSTEP_KEEP_LOOP
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const std::uint64_t bits = splitmix64(key + static_cast<std::uint64_t>(i) * kStride);
    u[i] = static_cast<float>(static_cast<std::int32_t>(bits >> 40) + 1) * 0x1p-24F;  // (0, 1]
    v[i] = static_cast<float>(static_cast<std::int32_t>((bits >> 8) & 0xffffffU)) * 0x1p-24F;
  }
  LOCKSTEP_KEEP_LOOP
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const float radius = scale * std::sqrt(-2.0F * log_of(u[i]));
    const Turn turn = turn_of(v[i]);
    cosines[i] = radius * turn.cosine;
    sines[i] = radius * turn.sine;
  }
  for (std::int64_t i = 0; i < kPairs; ++i) {
    out[2 * i] = cosines[i];
    out[2 * i + 1] = sines[i];
  }
}

LOCKSTEP_INLINE void draw_loop(std::uint64_t key, float scale, float* out, std::int64_t count) {
  constexpr std::int64_t kBlock = 2 * kPairs;
  float last[kBlock];
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::uint64_t state = key + static_cast<std::uint64_t>(i / 2) * kStride;
    if (i + kBlock <= count) {
      block_of(state, scale, out + i);
    } else {
      block_of(state, scale, last);
      std::copy_n(last, count - i, out + i);
    }
  }
}

struct Kernel {
  void (*draw)(std::uint64_t, float, float*, std::int64_t);
};

#define LOCKSTEP_ENTRY_POINT(name, target)                                                    \
  struct name {                                                                               \
    target static void draw(std::uint64_t key, float scale, float* out, std::int64_t count) { \
      draw_loop(key, scale, out, count);                                                      \
    }                                                                                         \
    static constexpr Kernel table() { return {draw}; }                                        \
  }

LOCKSTEP_ENTRY_POINT(Portable, );
LOCKSTEP_ENTRY_POINT(Avx2, LOCKSTEP_AVX2);
LOCKSTEP_ENTRY_POINT(Avx512, LOCKSTEP_AVX512);

}  // namespace

void draw_normals(std::uint64_t key, float std_deviation, float* out, std::int64_t count) {
  static const Kernel chosen = best_table<Portable, Avx2, Avx512>();
  chosen.draw(key, std_deviation, out, count);
}

}  // namespace lockstep::model
