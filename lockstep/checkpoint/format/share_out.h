// Who writes what of a state that several ranks hold: every byte once, and every rank about as
// many.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/checkpoint/format/boxes.h"

namespace lockstep::checkpoint {

/// A box of a tensor and the ranks that have it in memory.
struct HeldBox {
  std::size_t tensor = 0;  // of the caller's list
  Box box;
  std::uint64_t bytes = 0;
  std::vector<int> holders;  // ascending, at least one
};

/// What one rank writes of one tensor: a box, or rows (dim 0) of it.
struct WrittenBox {
  std::size_t tensor = 0;
  Box box;
};

/// Boxes smaller than this are not cut.
inline constexpr std::uint64_t kLeastCutBytes = std::uint64_t{1} << 20;

/// For each rank what it writes, in the order of `held`. Boxes with equal holders are laid end to
/// end and cut into as many equal stretches as there are holders, at whole rows; a rank has at most
/// one box of each of `held`. The same on every rank that asks with the same boxes.
[[nodiscard]] std::vector<std::vector<WrittenBox>> share_out(const std::vector<HeldBox>& held,
                                                             int ranks);

}  // namespace lockstep::checkpoint
