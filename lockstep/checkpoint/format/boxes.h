// Whether boxes cut a tensor into parts: the check behind "any layout can read any other".
#pragma once
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

inline constexpr std::size_t kMaxBoxes = 4096;

struct Box {
  Shape offset;
  Shape shape;
};

/// Why `boxes` do not cover a tensor of `whole` exactly once; empty when they do. \param whole has
/// a size that fits 64 bits.
[[nodiscard]] std::string why_not_covered(const Shape& whole, const std::vector<Box>& boxes);

}  // namespace lockstep::checkpoint
