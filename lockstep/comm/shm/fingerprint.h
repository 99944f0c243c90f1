// What a rank enters a collective with, as 16 bytes that all ranks compare and as words for people.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/comm/shm/element.h"
#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm::shm {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  barrier,
};

[[nodiscard]] std::string_view name(Collective collective);

struct CollectiveKind {
  Collective collective = Collective::barrier;
  ElementType type = ElementType::u8;
  Reduction reduction = Reduction::sum;
  std::uint32_t root = 0;
  bool uneven = false;         // counts are not compared: every rank has its own
  bool ordered = false;        // a tree sum where the backend's own order is another (Gloo)
};

[[nodiscard]] Fingerprint make_fingerprint(const CollectiveKind& kind, std::uint64_t count);

/// "all_reduce (sum) of 8 float32": for any 16 bytes.
[[nodiscard]] std::string describe(const Fingerprint& fingerprint);

/// "rank 1 entered all_reduce (sum) of 8 float32 at bucket 4": one side of a disagreement.
[[nodiscard]] std::string entry_text(int rank, const Fingerprint& fingerprint,
                                     std::string_view site);

}  // namespace lockstep::comm::shm
