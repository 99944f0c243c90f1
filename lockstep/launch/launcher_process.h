// What a process that starts ranks sets for itself, and not for them.
#pragma once
#include <sys/resource.h>

#include <cstdint>

namespace lockstep::launch {

/// While it lives, this process may open as many files as the hard limit allows: each rank and each
/// launcher of another host takes several, and shells allow 1,024. From then on writing to a pipe
/// that nobody reads fails and does not end the process: the exit code is the job's. One at a time.
class LauncherProcess {
 public:
  LauncherProcess();
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess();

  /// The soft limit of before, for what this process starts (ChildSpec::open_files): programs that
  /// use select() break above 1,023. 0 where it is not known.
  [[nodiscard]] std::uint64_t open_files() const { return before_.rlim_cur; }

 private:
  rlimit before_{};
};

}  // namespace lockstep::launch
