// Notices within milliseconds that a rank of this host ended, and within seconds that it was
// stopped.
#pragma once
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "lockstep/comm/shm/segment.h"

namespace lockstep::comm::shm {

/// A thread that holds this rank's life word, which the kernel marks before it tears the process
/// down (robust futex: Documentation/locking/robust-futexes.rst), and watches the next living
/// rank's. Who ends or is stopped ends the group: Segment::abort().
class Liveness {
 public:
  struct Limits {
    std::chrono::milliseconds heartbeat{250};
    std::chrono::milliseconds silence{1500};  // of a rank, before its process is looked at
  };

  explicit Liveness(const Segment& segment) : Liveness(segment, Limits{}) {}
  Liveness(const Segment& segment, Limits limits);
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;
  /// Leaves on purpose: nobody takes it for a death.
  ~Liveness();

 private:
  void run();
  void watch(int other);
  void look_for_silence();
  void beat();
  [[nodiscard]] int next_living() const;
  [[nodiscard]] std::string text_of(int rank) const;

  const Segment& segment_;
  const Limits limits_;
  std::atomic<bool> stop_{false};
  std::chrono::steady_clock::time_point last_beat_;
  std::chrono::steady_clock::time_point trust_from_;  // silence of others counts from here on
  std::thread thread_;
};

}  // namespace lockstep::comm::shm
