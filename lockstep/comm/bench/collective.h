// The collectives that `bench comm` times: how much one moves, and what its time means as
// bandwidth.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::bench {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };

[[nodiscard]] std::string_view name_of(Collective op);
[[nodiscard]] std::optional<Collective> find_collective(std::string_view name);
/// In the order of the enumeration.
[[nodiscard]] std::span<const std::string_view> collective_names();

/// fp32 elements of one call.
struct Extent {
  std::int64_t full = 0;  // the buffer that `bytes` counts: all ranks' parts where there are parts
  std::int64_t part = 0;  // of one rank: reduce_scatter's output, all_gather's input; else 0

  [[nodiscard]] std::int64_t bytes() const { return full * 4; }
};

/// `wanted_bytes` rounded up to whole elements, and to as many for each rank where there are parts.
/// A barrier moves nothing.
[[nodiscard]] Extent extent_of(Collective op, std::int64_t wanted_bytes, int ranks);

/// What nccl-tests (doc/PERFORMANCE.md) multiplies the algorithm bandwidth bytes / time by to get
/// the bus bandwidth, which does not depend on the number n of ranks when links are the limit:
/// all_reduce 2(n-1)/n, reduce_scatter and all_gather (n-1)/n, broadcast 1.
[[nodiscard]] double bus_factor(Collective op, int ranks);

}  // namespace lockstep::bench
