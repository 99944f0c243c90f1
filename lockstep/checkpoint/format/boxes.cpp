#include "lockstep/checkpoint/format/boxes.h"

#include <cstdint>

namespace lockstep::checkpoint {
namespace {

bool inside(const Box& box, const Shape& whole) {
  if (box.offset.size() != whole.size() || box.shape.size() != whole.size()) return false;
  for (std::size_t dim = 0; dim < whole.size(); ++dim) {
    if (box.offset[dim] < 0 || box.shape[dim] < 0 || box.offset[dim] > whole[dim] ||
        box.shape[dim] > whole[dim] - box.offset[dim]) {
      return false;
    }
  }
  return true;
}

std::int64_t volume(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  return elements;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t dim = 0; dim < a.shape.size(); ++dim) {
    if (a.offset[dim] + a.shape[dim] <= b.offset[dim] ||
        b.offset[dim] + b.shape[dim] <= a.offset[dim]) {
      return false;
    }
  }
  return volume(a.shape) > 0 && volume(b.shape) > 0;
}

}  // namespace

std::string why_not_covered(const Shape& whole, const std::vector<Box>& boxes) {
  if (boxes.size() > kMaxBoxes) return "more than " + std::to_string(kMaxBoxes) + " pieces";
  std::int64_t missing = volume(whole);
  for (const Box& box : boxes) {
    if (!inside(box, whole)) return "a piece lies outside the shape " + to_text(whole);
    if (volume(box.shape) > missing) return "its pieces overlap";
    missing -= volume(box.shape);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(boxes[i], boxes[j])) return "its pieces overlap";
    }
  }
  return missing == 0 ? "" : "its pieces leave " + std::to_string(missing) + " elements out";
}

}  // namespace lockstep::checkpoint
