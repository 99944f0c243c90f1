// One job at a time in a run directory.
#pragma once
#include <filesystem>

#include "lockstep/base/fd.h"

namespace lockstep::rundir {

/// Holds RUN_DIR/lock while it lives. The system releases it when the process dies, however it
/// dies. Where a file system knows no locks, nothing is held.
class RunLock {
 public:
  RunLock() = default;  // holds nothing
  /// \throws UsageError (LS-1031) naming the process that holds it, EnvironmentFault (LS-3051) when
  /// the file cannot be made.
  explicit RunLock(const std::filesystem::path& run_dir);

 private:
  Fd fd_;
};

}  // namespace lockstep::rundir
