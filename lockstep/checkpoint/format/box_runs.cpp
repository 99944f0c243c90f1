#include "lockstep/checkpoint/format/box_runs.h"

#include <algorithm>

namespace lockstep::checkpoint {

BoxRuns::BoxRuns(const Shape& whole, const Box& box) {
  if (std::find(box.shape.begin(), box.shape.end(), 0) != box.shape.end()) {
    count_ = 0;
    return;
  }
  std::uint64_t stride = 1;
  bool is_whole = true;  // all dims behind this one are
  for (std::size_t dim = whole.size(); dim-- > 0;) {
    const auto length = static_cast<std::uint64_t>(box.shape[dim]);
    origin_ += static_cast<std::uint64_t>(box.offset[dim]) * stride;
    if (is_whole) {
      elements_ *= length;
    } else {
      count_ *= length;
      outer_.push_back({length, stride});
    }
    is_whole = is_whole && box.shape[dim] == whole[dim];
    stride *= static_cast<std::uint64_t>(whole[dim]);
  }
  std::reverse(outer_.begin(), outer_.end());
}

std::uint64_t BoxRuns::start(std::uint64_t run) const {
  std::uint64_t element = origin_;
  for (std::size_t dim = outer_.size(); dim-- > 0;) {
    element += run % outer_[dim].length * outer_[dim].stride;
    run /= outer_[dim].length;
  }
  return element;
}

std::uint64_t BoxRuns::first_behind(std::uint64_t element) const {
  std::uint64_t low = 0;
  std::uint64_t high = count_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (start(middle) + elements_ > element) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace lockstep::checkpoint
