// Which way a large all_gather goes: what each has cost, by size.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm::shm {

/// Plain or streamed stores into the rings (RingWriter says when which is cheap), or no rings: each
/// rank reads the others' own memory.
enum class GatherWay : std::uint8_t { plain, streamed, reading };
inline constexpr std::size_t kGatherWays = 3;

/// What a rank shows the others as it enters an all_gather.
struct GatherOffer {
  std::uint64_t address = 0;               // of its part, in its own memory
  std::array<float, kGatherWays> costs{};  // ns a KiB of its part; 0 = not known yet
  GatherWay tries = GatherWay::plain;      // to learn what it costs now: counts of rank 0,
  bool is_trial = false;                   // if this is true
  bool reads = false;                      // it can read the others' memory
};
void write_offer(Slot& slot, const GatherOffer& offer);
/// Whatever bytes lie there.
[[nodiscard]] GatherOffer read_offer(const Slot& slot);

/// The same on all ranks: the trial of rank 0, else what costs all ranks together the least.
/// \param offers of all ranks, by rank.
[[nodiscard]] GatherWay agreed_way(std::span<const GatherOffer> offers);

/// One rank's. Costs depend on the machine's mood (near or far), on whether the data has changed
/// since it was last read, and on its size: so each way is tried again from time to time.
class GatherCosts {
 public:
  /// For the next all_gather of parts of this size. \param reads this rank can read the others.
  [[nodiscard]] GatherOffer next_offer(std::size_t part_bytes, bool reads);
  /// What this rank's copies took.
  void note(GatherWay way, std::size_t part_bytes, double took_ns);

 private:
  struct Class {
    std::uint64_t entered = 0;
    std::array<float, kGatherWays> costs{};
  };
  [[nodiscard]] Class& class_of(std::size_t part_bytes);

  std::array<Class, 12> classes_;  // by size, each twice the one before
};

}  // namespace lockstep::comm::shm
