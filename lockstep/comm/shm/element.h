// What shared-memory collectives move and how they combine it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::comm::shm {

enum class ElementType : std::uint8_t { f32, f64, bf16, f16, i8, u8, i16, i32, i64, boolean };

/// Sums, means and products of bf16 and f16 are formed in fp32 and rounded once.
/// For booleans: sum, max and bit_or are "any", product, min and bit_and are "all".
enum class Reduction : std::uint8_t { sum, mean, min, max, product, bit_and, bit_or, bit_xor };

[[nodiscard]] constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64:
      return 8;
    case ElementType::f32:
    case ElementType::i32:
      return 4;
    case ElementType::bf16:
    case ElementType::f16:
    case ElementType::i16:
      return 2;
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean:
      break;
  }
  return 1;
}

[[nodiscard]] constexpr bool is_floating(ElementType type) { return type <= ElementType::f16; }

/// Means are of floating-point numbers, bit operations of integers and booleans.
[[nodiscard]] constexpr bool is_defined(Reduction reduction, ElementType type) {
  if (reduction == Reduction::mean) return is_floating(type);
  return reduction < Reduction::bit_and || !is_floating(type);
}

/// "float32", as PyTorch names it.
[[nodiscard]] std::string_view name(ElementType type);
[[nodiscard]] std::string_view name(Reduction reduction);

}  // namespace lockstep::comm::shm
