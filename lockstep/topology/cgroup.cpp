#include "lockstep/topology/cgroup.h"

#include <algorithm>
#include <vector>

#include "lockstep/topology/proc_text.h"

namespace lockstep {
namespace {

/// Where one hierarchy is mounted, and which part of it: a line of /proc/self/mountinfo.
struct CgroupMount {
  std::string controllers;  // "" for version 2, else ",cpu,cpuacct,"
  std::string root;         // of the hierarchy, as seen at `point`
  std::string point;
};

/// A folder that holds this process, and its ancestors up to the mount point.
struct CgroupFolders {
  std::vector<std::string> cpu;
  std::vector<std::string> memory;
  bool cpu_is_v2 = false;
  bool memory_is_v2 = false;
};

// mountinfo: id parent dev root point options [tags] - type source super-options (man proc).
std::vector<CgroupMount> read_mounts(const std::string& root) {
  std::vector<CgroupMount> mounts;
  for (const std::string& line : split(read_small_file(root + "/proc/self/mountinfo"), '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    if (right[0] == "cgroup2") mounts.push_back({"", left[3], left[4]});
    if (right[0] == "cgroup") mounts.push_back({"," + right[2] + ",", left[3], left[4]});
  }
  return mounts;
}

bool carries(const std::string& controllers, const std::string& controller) {
  return controllers.find("," + controller + ",") != std::string::npos;
}

std::vector<std::string> folders_up(const std::string& root, const CgroupMount& mount,
                                    std::string path) {
  if (mount.root != "/" && path.starts_with(mount.root)) path = path.substr(mount.root.size());
  // Outside of its own cgroup namespace the path climbs ("/../.."): only the mount itself is seen.
  if (path.find("..") != std::string::npos) path.clear();
  std::vector<std::string> folders;
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    folders.push_back(root + mount.point + path);
    if (path.empty()) return folders;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// /proc/self/cgroup: "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1.
CgroupFolders find_folders(const std::string& root) {
  CgroupFolders found;
  const auto mounts = read_mounts(root);
  for (const std::string& line : split(read_small_file(root + "/proc/self/cgroup"), '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool is_v2 = names.empty();
    const std::string path = line.substr(second + 1);
    for (const CgroupMount& mount : mounts) {
      if (mount.controllers.empty() != is_v2) continue;
      const auto wanted = [&](const char* controller) {
        return is_v2 ||
               (carries("," + names + ",", controller) && carries(mount.controllers, controller));
      };
      // A version 1 hierarchy wins: where both are mounted, version 2 carries no controller of it.
      if (wanted("cpu") && (!is_v2 || found.cpu.empty())) {
        found.cpu = folders_up(root, mount, path);
        found.cpu_is_v2 = is_v2;
      }
      if (wanted("memory") && (!is_v2 || found.memory.empty())) {
        found.memory = folders_up(root, mount, path);
        found.memory_is_v2 = is_v2;
      }
    }
  }
  return found;
}

template <typename T>
void keep_least(std::optional<T>& least, T value) {
  least = least ? std::min(*least, value) : value;
}

std::optional<double> quota_of(const std::string& folder, bool is_v2) {
  std::optional<std::int64_t> quota_us;
  std::optional<std::int64_t> period_us;
  if (is_v2) {
    const auto words = split(trim(read_small_file(folder + "/cpu.max")), ' ');
    if (words.size() == 2) {
      quota_us = leading_integer(words[0]);
      period_us = leading_integer(words[1]);
    }
  } else {
    quota_us = leading_integer(read_small_file(folder + "/cpu.cfs_quota_us"));
    period_us = leading_integer(read_small_file(folder + "/cpu.cfs_period_us"));
  }
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

void add_memory(const std::string& folder, bool is_v2, CgroupLimits& limits) {
  constexpr std::int64_t kUnlimited = std::int64_t{1}
                                      << 60;  // version 1 says "no limit" as 2^63 - page
  const auto file = [&](const char* v1, const char* v2) {
    return read_small_file(folder + "/" + (is_v2 ? v2 : v1));
  };
  const auto limit = leading_integer(file("memory.limit_in_bytes", "memory.max"));
  if (!limit || *limit <= 0 || *limit >= kUnlimited) return;
  keep_least(limits.memory_bytes, *limit);
  const auto used = leading_integer(file("memory.usage_in_bytes", "memory.current"));
  if (!used) return;
  const auto stat = file("memory.stat", "memory.stat");
  const auto cache =
      leading_integer(field(stat, is_v2 ? "inactive_file " : "total_inactive_file "));
  keep_least(limits.memory_free_bytes,
             std::max<std::int64_t>(0, *limit - *used + cache.value_or(0)));
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  const CgroupFolders folders = find_folders(root);
  CgroupLimits limits;
  for (const std::string& folder : folders.cpu) {
    if (const auto cores = quota_of(folder, folders.cpu_is_v2)) {
      keep_least(limits.cpu_quota_cores, *cores);
    }
  }
  for (const std::string& folder : folders.memory) add_memory(folder, folders.memory_is_v2, limits);
  return limits;
}

}  // namespace lockstep
