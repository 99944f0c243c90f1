#include "lockstep/launch/oom_watch.h"

#include <utility>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/topology/cgroup.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

/// The files that may hold the count for a line of /proc/self/cgroup ("4:memory:/a", "0::/a"). In a
/// container the path is often of the host, and the mount point itself is the right folder.
std::vector<std::string> count_files(const std::string& root, const std::string& line) {
  const auto fields = split(line, ':');
  if (fields.size() < 3) return {};
  std::string path = fields[2];
  if (path == "/") path.clear();
  const std::string base = root + "/sys/fs/cgroup";
  if (fields[1].empty()) return {base + path + "/memory.events", base + "/memory.events"};
  if (fields[1] != "memory") return {};
  return {base + "/memory" + path + "/memory.oom_control", base + "/memory/memory.oom_control"};
}

}  // namespace

OomWatch::OomWatch(std::string root) : root_(std::move(root)), seen_(kills()) {}

std::optional<std::int64_t> OomWatch::kills() const {
  for (const auto& line : split(read_small_file(root_ + "/proc/self/cgroup"), '\n')) {
    for (const auto& file : count_files(root_, line)) {
      // "oom_kill " with the blank: version 1 also has "oom_kill_disable".
      const auto count = leading_integer(field(read_small_file(file), "oom_kill "));
      if (count.has_value()) return count;
    }
  }
  return std::nullopt;
}

std::string OomWatch::explain_kill(std::int64_t peak_rss_bytes) {
  const auto now = kills();
  if (!now.has_value() || !seen_.has_value()) return {};
  if (*now <= *seen_) {
    return "the kernel's out-of-memory killer did not do this: something sent it kill -9";
  }
  ++*seen_;
  const auto limit = read_cgroup_limits(root_).memory_bytes;
  return "the kernel's out-of-memory killer ended it" +
         (limit.has_value() ? "; the limit of its cgroup is " + format_bytes(*limit)
                            : std::string()) +
         (peak_rss_bytes > 0 ? "; its resident memory had reached " + format_bytes(peak_rss_bytes)
                             : std::string()) +
         ": use a smaller micro_batch (\"auto\" finds it) or fewer ranks a host; `lockstep plan` "
         "tells what a rank needs";
}

}  // namespace lockstep::launch
