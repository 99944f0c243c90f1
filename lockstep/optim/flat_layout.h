// Where each parameter lies in the one flat buffer of its group: the layout that resident, sharded
// and offloaded state share (architecture.md, "Same numbers").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::optim {

inline constexpr std::int64_t kPadElements = 64;     // each slot starts at a multiple of this
inline constexpr std::int64_t kChunkElements = 4096; // norms are summed, and shards cut, by chunks

struct Slot {
  std::string name;
  std::int64_t offset = 0;  // elements from the start of the flat buffer
  std::int64_t count = 0;   // elements of the parameter (without padding)
};

/// Slots in the order given, each padded to kPadElements; total padded to kChunkElements.
struct FlatLayout {
  std::vector<Slot> slots;
  std::int64_t total = 0;   // elements, padding included
};

[[nodiscard]] FlatLayout make_layout(const std::vector<std::string>& names,
                                     const std::vector<std::int64_t>& counts);

}  // namespace lockstep::optim
