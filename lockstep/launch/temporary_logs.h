// The folder of logs of a launch without --log-dir, and when such folders go.
#pragma once
#include <filesystem>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

inline constexpr int kDaysOfTemporaryLogs = 7;
inline constexpr std::size_t kMostTemporaryLogs = 20;  // of those that hold no output of ranks

struct TemporaryLogs {
  std::string folder;
  Fd lock;  // the folder is in use
};

/// Makes a folder in $TMPDIR or /tmp. First takes away those of this user's earlier launches that
/// are not in use: the ones that no rank has written to, those whose files are older than
/// kDaysOfTemporaryLogs, and, of those that hold only what ranks said of their errors, all but the
/// newest kMostTemporaryLogs. \throws EnvironmentFault when no folder can be made.
[[nodiscard]] TemporaryLogs make_temporary_logs();

/// Whether there is any file below: folders alone say nothing.
[[nodiscard]] bool has_any_file(const std::filesystem::path& folder);

/// \throws EnvironmentFault: LS-3005.
[[noreturn]] void cannot_make_logs(const std::filesystem::path& folder, const std::string& why);

}  // namespace lockstep::launch
