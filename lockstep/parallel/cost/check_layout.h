// Whether a layout can be at all: every fault at once, each with the nearest values that can.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {

[[nodiscard]] std::vector<Problem> check_layout(const LayoutQuestion& question);

/// "4 or 8": the divisors of `number` next to `wanted`, below and above, that `allowed` takes.
[[nodiscard]] std::string nearest_divisors(std::int64_t number, std::int64_t wanted);
/// LS-6102 when `value` is below `least`.
void require_least(std::string_view flag, std::int64_t value, std::int64_t least,
                   std::vector<Problem>& problems);
/// LS-6103 when `divisor` does not divide `number` of `what` ("heads"); a divisor below 1 is left
/// to require_least.
void require_divides(std::string_view flag, std::int64_t divisor, std::string_view what,
                     std::int64_t number, std::vector<Problem>& problems);

}  // namespace lockstep::parallel
