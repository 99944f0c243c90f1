// A process that outlives a killed launcher just long enough to end what the ranks left behind.
#pragma once
#include <cstdint>

#include "lockstep/base/fd.h"
#include "lockstep/base/socket.h"

namespace lockstep::launch {

/// PR_SET_PDEATHSIG ends the ranks themselves; a helper they started would stay. The guardian waits
/// at a pipe that only the launcher holds open, and at its end kills the process groups it was told
/// of. It kills them at the fence as well: a launcher that is stopped (SIGSTOP) cannot.
class Guardian {
 public:
  /// It keeps no other descriptor of this process. \throws EnvironmentFault (no process to be had).
  Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  /// Ends it; groups still told are killed.
  ~Guardian();

  void watch(int process_group);
  /// The group is gone, its number may belong to others soon.
  void forget(int process_group);
  /// The groups are killed then, unless a later fence is told before. Deadline::max() = never.
  void fence(Deadline at);

 private:
  struct Message {
    std::int64_t group = 0;     // > 0: watch it; < 0: forget it; 0: a fence
    std::int64_t fence_ns = 0;  // of the monotonic clock; 0 = none
  };
  void tell(const Message& message);
  [[noreturn]] static void guard(int pipe_fd);

  Fd pipe_;
  int pid_ = -1;
};

}  // namespace lockstep::launch
