#include "lockstep/checkpoint/tools/disk_fault.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "lockstep/base/units.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string bytes_text(std::uint64_t bytes) {
  return format_bytes(static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX)));
}

std::string free_text(const fs::path& folder) {
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  return unknown ? "?" : bytes_text(space.available);
}

EnvironmentFault no_room(const fs::path& folder, std::uint64_t need) {
  return EnvironmentFault({"LS-5001", folder.string(),
                           "No space left for the checkpoint: it needs " + bytes_text(need) +
                               ", free are " + free_text(folder),
                           "free some space, or write to another disk"});
}

/// The folder, or the first one above that exists.
fs::path existing(const fs::path& folder) {
  std::error_code error;
  fs::path above = fs::absolute(folder, error).lexically_normal();
  while (!error && !fs::exists(above, error) && above.has_relative_path()) {
    above = above.parent_path();
    error.clear();
  }
  return above;
}

}  // namespace

EnvironmentFault disk_fault(const fs::filesystem_error& error, const fs::path& folder,
                            std::uint64_t need) {
  const int code = error.code().value();
  if (code == ENOSPC || code == EDQUOT) return no_room(folder, need);
  return EnvironmentFault({"LS-5002",
                           error.path1().empty() ? folder.string() : error.path1().string(),
                           std::string(error.what()) + "; the checkpoint needs " +
                               bytes_text(need) + ", free are " + free_text(folder),
                           "make the folder writable, or name another place"});
}

void require_room(const fs::path& folder, std::uint64_t need) {
  const fs::path place = existing(folder);
  std::error_code unknown;  // then the writing itself will tell
  const fs::space_info space = fs::space(place, unknown);
  if (!unknown && space.available < need) throw no_room(place, need);
}

}  // namespace lockstep::checkpoint
