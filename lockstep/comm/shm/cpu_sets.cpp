#include "lockstep/comm/shm/cpu_sets.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/topology/cgroup.h"

namespace lockstep::comm::shm {

std::string own_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return "";  // more than 1024 of them
  return {reinterpret_cast<const char*>(&cpus), sizeof cpus};
}

int count_cpus(const std::vector<std::string>& of_ranks) {
  cpu_set_t all;
  CPU_ZERO(&all);
  int count = 0;
  for (const std::string& bytes : of_ranks) {
    cpu_set_t cpus;
    if (bytes.size() == sizeof cpus) {
      std::memcpy(&cpus, bytes.data(), sizeof cpus);
      CPU_OR(&all, &all, &cpus);
    } else {
      count = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    }
  }
  count = std::max(count, CPU_COUNT(&all));
  if (const auto quota = read_cgroup_limits("").cpu_quota_cores) {
    count = std::min(count, static_cast<int>(std::floor(*quota)));
  }
  return std::max(count, 1);
}

}  // namespace lockstep::comm::shm
