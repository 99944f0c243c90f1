// A process that outlives a killed launcher just long enough to end what the ranks left behind.
#pragma once
#include "lockstep/base/fd.h"

namespace lockstep::launch {

/// PR_SET_PDEATHSIG ends the ranks themselves; a helper they started would stay. The guardian waits
/// at a pipe that only the launcher holds open, and at its end kills the process groups it was told
/// of.
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

 private:
  void tell(int number);

  Fd pipe_;
  int pid_ = -1;
};

}  // namespace lockstep::launch
