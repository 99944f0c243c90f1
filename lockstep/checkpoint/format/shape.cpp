#include "lockstep/checkpoint/format/shape.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::checkpoint {
namespace {

// In the order of the library's own list, which decides the order of tensors in a file.
constexpr auto kElementBits = std::to_array<std::pair<std::string_view, int>>({
    {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
});

}  // namespace

int element_order(std::string_view dtype) {
  const auto* row = std::find_if(kElementBits.begin(), kElementBits.end(),
                                 [&](const auto& r) { return r.first == dtype; });
  return row == kElementBits.end() ? -1 : static_cast<int>(row - kElementBits.begin());
}

int element_bits(std::string_view dtype) {
  const int row = element_order(dtype);
  return row < 0 ? 0 : kElementBits[static_cast<std::size_t>(row)].second;
}

std::optional<std::uint64_t> tensor_bytes(std::string_view dtype, const Shape& shape) {
  auto bits = static_cast<std::uint64_t>(element_bits(dtype));
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits)) {
      return std::nullopt;
    }
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

}  // namespace lockstep::checkpoint
