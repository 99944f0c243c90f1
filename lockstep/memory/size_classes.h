// Sizes of the blocks kept for reuse: multiples of 64 bytes, then eight between powers of two.
#pragma once
#include <bit>
#include <cstddef>

namespace lockstep::memory {

inline constexpr std::size_t kSizeClasses = 8 + 8 * 38;  // up to 2^47 bytes, the user address space

/// The smallest class whose blocks hold `bytes`; at most 12.5 % is slack above 512 bytes.
[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) {
  if (bytes <= 512) return bytes == 0 ? 0 : (bytes - 1) / 64;
  const auto exponent = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
  const std::size_t base = std::size_t{1} << exponent;
  const std::size_t step = base / 8;
  return 8 * (exponent - 8) + (bytes - base + step - 1) / step - 1;
}

[[nodiscard]] constexpr std::size_t bytes_of_class(std::size_t size_class) {
  if (size_class < 8) return 64 * (size_class + 1);
  const std::size_t base = std::size_t{1} << (size_class / 8 + 8);
  return base + base / 8 * (size_class % 8 + 1);
}

}  // namespace lockstep::memory
