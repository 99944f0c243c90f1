#include "lockstep/base/rng.h"

#include <cmath>
#include <numbers>

namespace lockstep {

// Lemire, "Fast random integer generation in an interval", 2019: the high half of a 128-bit
// product; low halves under 2^64 mod bound would favour some values and are drawn again.
std::uint64_t Rng::below(std::uint64_t bound) noexcept {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next_u64()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t refused = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < refused) {
      product = static_cast<Wide>(next_u64()) * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Rng::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));  // the logarithm's (0, 1]
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace lockstep
