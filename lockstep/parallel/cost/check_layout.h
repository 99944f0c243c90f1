// Whether a layout can be at all: every fault at once, each with the nearest values that can.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {

/// Fast; a fix looks at its own fault alone.
[[nodiscard]] std::vector<Problem> check_layout(const LayoutQuestion& question);
/// The same for people: degrees that a fix names go with the whole model, the devices and the
/// other degrees, where any do.
[[nodiscard]] std::vector<Problem> explain_layout(const LayoutQuestion& question);

/// LS-6102 when `value` is below `least`.
void require_least(std::string_view flag, std::int64_t value, std::int64_t least,
                   std::vector<Problem>& problems);
/// LS-6103 when `divisor` does not divide `number` of `what` ("heads"); a divisor below 1 is left
/// to require_least.
void require_divides(std::string_view flag, std::int64_t divisor, std::string_view what,
                     std::int64_t number, std::vector<Problem>& problems);

}  // namespace lockstep::parallel
