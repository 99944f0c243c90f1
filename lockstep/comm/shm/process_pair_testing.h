// A group of two whose ranks are processes, for tests of what only processes do.
#pragma once
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <span>

#include "lockstep/comm/shm/segment.h"
#include "lockstep/comm/shm/shared_memory.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm::testing {

/// Memory of a group of two, whose rank 1 is a process of its own.
class Pair {
 public:
  explicit Pair(const std::function<void(const Segment&)>& rank_1)
      : layout_(2, 8 * kSmallPiece, kSmallPiece),
        memory_(SharedMemory::create(layout_.total_bytes())) {
    Segment::format(bytes(), layout_);
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank_1(Segment(bytes(), 1, 2));
    ::_exit(0);  // where it has not ended itself
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() { end(); }

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.data(), memory_.bytes()}; }
  [[nodiscard]] pid_t child() const { return child_; }
  /// Its process is gone, with the last of its traces.
  void end() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    (void)await();
  }
  /// What its process ended with; -1 = a signal ended it.
  [[nodiscard]] int await() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  Layout layout_;
  SharedMemory memory_;
  pid_t child_ = 0;
};

}  // namespace lockstep::comm::shm::testing
