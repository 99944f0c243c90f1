// How a thread waits for other ranks: it spins while an answer may come at once, lets others run,
// and then sleeps.
#pragma once
#include <chrono>

#include "lockstep/comm/shm/segment.h"

namespace lockstep::comm::shm {

class WaitPolicy {
 public:
  /// \param crowded more ranks than CPUs: a spinning rank would keep the one it waits for from
  /// running.
  explicit WaitPolicy(bool crowded) : crowded_(crowded) {}

  enum class Paused { spun, found, slept };

  /// Called after a look that found nothing; `look` is tried once more before sleeping.
  template <class Look>
  Paused pause(const Segment& segment, Look&& look) {
    if (spin()) return Paused::spun;
    const std::uint32_t seen = segment.prepare_sleep();
    if (look()) {
      segment.stay_awake();
      return Paused::found;
    }
    segment.sleep(seen, kLongestSleep);
    return Paused::slept;
  }
  void reset() { looks_ = 0; }

 private:
  static constexpr std::chrono::milliseconds kLongestSleep{20};  // then deadlines are looked at
  static constexpr std::chrono::microseconds kSpin{50};

  /// False when it has spun long enough.
  [[nodiscard]] bool spin();

  bool crowded_;
  unsigned looks_ = 0;
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace lockstep::comm::shm
