// Virtual machines have two speeds between cores that flip within one run: "near" and "far". What
// was timed means little without knowing in which of them.
#pragma once
#include <string_view>
#include <vector>

namespace lockstep::bench {

/// A read of 256 KiB above this is "far".
inline constexpr double kFarAbove_us = 60;

/// "near", "far", or "unknown" for NaN.
[[nodiscard]] std::string_view regime_of(double probe_us);

/// Cores this thread may run on, in order.
[[nodiscard]] std::vector<int> allowed_cores();
/// Keeps this thread, and threads it starts later, on `core`. \throws EnvironmentFault.
void pin_to(int core);

/// The median time in which a thread on the second core copies 256 KiB that a thread on the first
/// has just written with ordinary stores, so that they lie in its cache. Takes about a millisecond.
/// NaN with fewer than two cores.
[[nodiscard]] double probe_us(const std::vector<int>& cores);

}  // namespace lockstep::bench
