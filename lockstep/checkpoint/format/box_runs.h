// Where the elements of a box lie in the whole tensor, both in row-major order: in runs of equal
// length, which follow each other in the box without a gap.
#pragma once
#include <cstdint>

#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

class BoxRuns {
 public:
  /// \pre `box` lies inside `whole`, whose size fits 64 bits (why_not_covered()).
  BoxRuns(const Shape& whole, const Box& box);

  [[nodiscard]] std::uint64_t count() const { return count_; }        // 0 = the box is empty
  [[nodiscard]] std::uint64_t elements() const { return elements_; }  // of one run
  /// The first element of run `run` in the whole tensor.
  [[nodiscard]] std::uint64_t start(std::uint64_t run) const;
  /// The first run that ends behind `element` of the whole tensor; count() when none does.
  [[nodiscard]] std::uint64_t first_behind(std::uint64_t element) const;

 private:
  struct Dim {
    std::uint64_t length;  // of the box
    std::uint64_t stride;  // elements of the whole tensor
  };
  std::vector<Dim> outer_;  // the dims over which runs are counted, the last one fastest
  std::uint64_t origin_ = 0;
  std::uint64_t count_ = 1;
  std::uint64_t elements_ = 1;
};

}  // namespace lockstep::checkpoint
