// What the cgroup of this process leaves of the host: version 1 and 2, from the process up to the
// root.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Limits found; unset = the cgroup does not limit it, or cannot be read.
struct CgroupLimits {
  std::optional<double> cpu_quota_cores;     // CPU seconds a second
  std::optional<std::int64_t> memory_bytes;  // the tightest limit on the way to the root
  std::optional<std::int64_t>
      memory_free_bytes;  // the tightest (limit - use), page cache not in use
};

/// \param root prefix of /proc and /sys, for tests.
[[nodiscard]] CgroupLimits read_cgroup_limits(const std::string& root);

}  // namespace lockstep
