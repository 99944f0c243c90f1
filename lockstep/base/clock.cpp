#include "lockstep/base/clock.h"

#include <chrono>

namespace lockstep {

double monotonic_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace lockstep
