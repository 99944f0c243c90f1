// Element types by their safetensors names, and sizes of shapes that somebody else wrote.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

using Shape = std::vector<std::int64_t>;

/// Bits of one element of "F32", "BF16", "I64", ...; 0 for a name that safetensors does not know.
[[nodiscard]] int element_bits(std::string_view dtype);

/// Place of the type in safetensors' own order, narrow types first; -1 for an unknown name.
[[nodiscard]] int element_order(std::string_view dtype);

/// Bytes of a whole tensor; nothing when a dim is negative, the product overflows, or the elements
/// do not fill whole bytes.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(std::string_view dtype, const Shape& shape);

/// "[2, 3]"
[[nodiscard]] std::string to_text(const Shape& shape);

}  // namespace lockstep::checkpoint
