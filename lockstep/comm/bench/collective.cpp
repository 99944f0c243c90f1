#include "lockstep/comm/bench/collective.h"

#include <algorithm>
#include <array>

namespace lockstep::bench {
namespace {

constexpr auto kNames = std::to_array<std::string_view>(
    {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"});

constexpr std::int64_t kElementBytes = 4;

std::int64_t divided_up(std::int64_t amount, std::int64_t by) { return (amount + by - 1) / by; }

bool has_parts(Collective op) {
  return op == Collective::reduce_scatter || op == Collective::all_gather;
}

}  // namespace

std::string_view name_of(Collective op) { return kNames.at(static_cast<std::size_t>(op)); }

std::optional<Collective> find_collective(std::string_view name) {
  const auto* row = std::find(kNames.begin(), kNames.end(), name);
  if (row == kNames.end()) return std::nullopt;
  return static_cast<Collective>(row - kNames.begin());
}

std::span<const std::string_view> collective_names() { return kNames; }

Extent extent_of(Collective op, std::int64_t wanted_bytes, int ranks) {
  if (op == Collective::barrier) return {};
  const std::int64_t elements = divided_up(wanted_bytes, kElementBytes);
  if (!has_parts(op)) return {elements, 0};
  const std::int64_t part = divided_up(elements, ranks);
  return {part * ranks, part};
}

double bus_factor(Collective op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return (n - 1) / n;
    case Collective::broadcast:
      return 1;
    case Collective::barrier:
      return 0;
  }
  return 0;
}

}  // namespace lockstep::bench
