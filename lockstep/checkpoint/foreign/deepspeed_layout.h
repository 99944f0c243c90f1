// Where the elements of each parameter lie in the flat partitions that ZeRO keeps of them
// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// 2020, section 5). Sizes and offsets are in elements.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

struct FlatParameter {
  std::string name;
  Shape shape;
  std::uint64_t elements = 0;
};

/// A run of a parameter: in the flat tensor `group` of rank `rank`.
struct FlatSlice {
  std::uint32_t rank = 0;
  std::uint32_t group = 0;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  friend bool operator==(const FlatSlice&, const FlatSlice&) = default;
};

/// Of one parameter, in the order of its elements.
using FlatSlices = std::vector<FlatSlice>;

/// Elements of the flat tensors: [rank][group], all ranks of as many groups.
using FlatSizes = std::vector<std::vector<std::uint64_t>>;

struct FlatLayout {
  std::vector<FlatSlices> slices;  // [parameter], of all groups one after the other
  std::string misfit;              // not empty: the sizes do not fit, and why
};

/// ZeRO 1 and 2: the parameters of a group stand one behind the other in one vector, which is cut
/// into a partition a rank. Both may be filled up to a multiple of 2 x ranks. \param groups the
/// parameters of each, as many groups as `sizes` has.
[[nodiscard]] FlatLayout lay_out_groups(const std::vector<std::vector<FlatParameter>>& groups,
                                        const FlatSizes& sizes);

/// ZeRO 3: each parameter is cut into equal parts of ceil(elements / ranks), the last one filled
/// up; each rank has its parts one behind the other, over its groups as if they were one.
[[nodiscard]] FlatLayout lay_out_parts(const std::vector<FlatParameter>& parameters,
                                       const FlatSizes& sizes);

}  // namespace lockstep::checkpoint
