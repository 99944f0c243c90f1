// One job at a time in a run directory, and in a folder of checkpoints.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/planner/job.h"

namespace lockstep::rundir {

/// Holds FOLDER/lock while it lives. The system releases it when the process dies, however it
/// dies. Where a file system knows no locks, nothing is held.
class RunLock {
 public:
  /// \param named_by the flag or key that names another folder.
  /// \throws UsageError (LS-1031) naming the process that holds it, EnvironmentFault (LS-3051) when
  /// the file cannot be made.
  explicit RunLock(const std::filesystem::path& folder, const std::string& named_by = "--run-dir");

 private:
  Fd fd_;
};

/// All that a job writes to: its run directory and, where checkpoint.dir names another folder, that
/// one (it is made) and the run directory it belongs to. \throws as RunLock does.
[[nodiscard]] std::vector<RunLock> lock_folders(const planner::Job& job);

}  // namespace lockstep::rundir
