// How near a run must come to its plan for the plan to be called kept.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep::parallel {

inline constexpr double kMemoryBarShare = 0.05;
inline constexpr std::int64_t kMemoryBarBytes = std::int64_t{32} << 20;
inline constexpr double kTimeBarShare = 0.15;

/// A category of memory: within a share of what was measured or so many bytes, whichever is more.
[[nodiscard]] inline bool keeps_memory(std::int64_t planned_bytes, std::int64_t measured_bytes) {
  const auto planned = static_cast<double>(planned_bytes);
  const auto measured = static_cast<double>(measured_bytes);
  return std::abs(planned - measured) <=
         std::max(kMemoryBarShare * measured, double{kMemoryBarBytes});
}

[[nodiscard]] inline bool keeps_time(double planned_s, double measured_s) {
  return std::abs(planned_s - measured_s) <= kTimeBarShare * measured_s;
}

}  // namespace lockstep::parallel
