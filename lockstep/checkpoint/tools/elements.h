// Elements of a checkpoint as numbers.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::checkpoint {

/// The element types that are numbers of whole bytes; complex ones and those below a byte are not.
enum class ElementKind {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,  // no infinity, one NaN: 0x7f with either sign
  f8_e5m2,
  f8_e8m0,  // a power of two
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,  // any byte but 0 is 1
};

/// By its safetensors name; nothing when it is none of them.
[[nodiscard]] std::optional<ElementKind> element_kind(std::string_view dtype);

[[nodiscard]] std::size_t element_bytes(ElementKind kind);

/// The elements of `bytes` (little-endian) as doubles; 64-bit integers are rounded.
/// \pre bytes.size() == out.size() * element_bytes(kind)
void to_doubles(ElementKind kind, std::span<const std::byte> bytes, std::span<double> out);

/// As to_doubles(). \pre `kind` has at most 16 bits or is f32, so that the values are exact.
void to_floats(ElementKind kind, std::span<const std::byte> bytes, std::span<float> out);

/// The value of each byte. \pre element_bytes(kind) == 1
[[nodiscard]] const std::array<double, 256>& byte_values(ElementKind kind);

}  // namespace lockstep::checkpoint
