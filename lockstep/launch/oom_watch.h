// Whether the kernel's out-of-memory killer struck while a job ran.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launch {

class OomWatch {
 public:
  /// Remembers the count of kills now. \param root prefix of /proc and /sys, for tests.
  explicit OomWatch(std::string root = "");

  /// A sentence about a SIGKILL that this launcher did not send; "" when nothing can be read.
  /// Each kill explains one death. \param peak_rss_bytes of the process; 0 = not known.
  [[nodiscard]] std::string explain_kill(std::int64_t peak_rss_bytes = 0);

 private:
  /// Kills in the cgroup of this process so far, versions 1 and 2.
  [[nodiscard]] std::optional<std::int64_t> kills() const;

  std::string root_;
  std::optional<std::int64_t> seen_;
};

}  // namespace lockstep::launch
