// Images and their classes, as the idx and CIFAR readers return them.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::data {

struct LabelledImages {
  std::int64_t count = 0;
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;  // [count, channels, height, width]
  std::vector<std::uint8_t> labels;  // [count]
  [[nodiscard]] std::int64_t pixels_per_image() const { return channels * height * width; }
};

}  // namespace lockstep::data
