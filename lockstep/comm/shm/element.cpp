#include "lockstep/comm/shm/element.h"

#include <array>

namespace lockstep::comm::shm {

std::string_view name(ElementType type) {
  static constexpr std::array<std::string_view, 10> kNames{
      "float32", "float64", "bfloat16", "float16", "int8",
      "uint8",   "int16",   "int32",    "int64",   "bool"};
  const auto row = static_cast<std::size_t>(type);
  return row < kNames.size() ? kNames[row] : "unknown type";
}

std::string_view name(Reduction reduction) {
  static constexpr std::array<std::string_view, 8> kNames{
      "sum", "mean", "min", "max", "product", "bitwise and", "bitwise or", "bitwise xor"};
  const auto row = static_cast<std::size_t>(reduction);
  return row < kNames.size() ? kNames[row] : "unknown reduction";
}

}  // namespace lockstep::comm::shm
