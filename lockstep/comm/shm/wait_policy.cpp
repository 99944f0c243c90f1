#include "lockstep/comm/shm/wait_policy.h"

#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::comm::shm {
namespace {

// A clock read costs as much as some looks, a yield as much as fifty.
constexpr unsigned kLooksPerClock = 16;
constexpr unsigned kLooksPerYield = 512;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

bool WaitPolicy::spin() {
  ++looks_;
  if (crowded_ || looks_ % kLooksPerYield == 0) {
    ::sched_yield();
  } else {
    relax();
  }
  if (looks_ == 1) began_ = {};
  if (looks_ % kLooksPerClock != 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (began_ == std::chrono::steady_clock::time_point{}) began_ = now;
  return now - began_ < kSpin;
}

}  // namespace lockstep::comm::shm
