// Virtual machines have two speeds between cores that flip within one run: "near" and "far". What
// was timed means little without knowing in which of them.
#pragma once
#include <string_view>
#include <vector>

namespace lockstep::bench {

/// A probe above this is "far". Seen on two Zen 4 cores: 12 to 48 us near, 114 to 191 us far.
inline constexpr double kFarAbove_us = 60;

/// "near", "far", or "unknown" for NaN.
[[nodiscard]] std::string_view regime_of(double probe_us);

/// Cores this thread may run on, in order.
[[nodiscard]] std::vector<int> allowed_cores();
/// Keeps this thread, and threads it starts later, on `core`. \throws EnvironmentFault.
void pin_to(int core);

/// The median time of a hand-over: a thread on the first core writes 256 KiB with ordinary stores
/// over what a thread on the second has read, and that one reads it again. Writing to lines that
/// another cache holds is what gets slow. Takes some milliseconds. NaN with fewer than two cores.
[[nodiscard]] double probe_us(const std::vector<int>& cores);

}  // namespace lockstep::bench
