// Deterministic draws: what is drawn depends on the numbers named, never on who draws or when.
#pragma once
#include <cstdint>

namespace lockstep {

/// One step of SplitMix64: the additive constant, then the finaliser "mix13" (Stafford), a
/// bijection of 64 bits. From Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A key from several numbers, e.g. mix(seed, step, sample): sensitive to each and to their order.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a) noexcept { return splitmix64(a); }

template <class... Rest>
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b, Rest... rest) noexcept {
  return mix(splitmix64(splitmix64(a) ^ b), static_cast<std::uint64_t>(rest)...);
}

/// A stream of draws from one key: SplitMix64. Eight bytes, so one per sample costs nothing.
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t key) noexcept : state_(key) {}

  [[nodiscard]] constexpr std::uint64_t next_u64() noexcept {
    const std::uint64_t value = splitmix64(state_);
    state_ += 0x9e3779b97f4a7c15ULL;
    return value;
  }

  /// Uniform in [0, 1): the 53 upper bits.
  [[nodiscard]] constexpr double uniform() noexcept {
    return static_cast<double>(next_u64() >> 11) * 0x1p-53;
  }

  /// Uniform in [0, bound), without bias. \param bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;

  /// Normal with mean 0 and variance 1 (Box and Muller, 1958); two draws a value.
  [[nodiscard]] double normal() noexcept;

 private:
  std::uint64_t state_;
};

}  // namespace lockstep
