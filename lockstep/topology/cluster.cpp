#include "lockstep/topology/cluster.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/topology/cgroup.h"
#include "lockstep/topology/kernel_file.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kKibibyte = 1024;  // "kB" of /proc/meminfo

// x86 says "model name", s390 "processor 0", ARM only numbers: there the field stays empty.
std::string read_cpu_model(const std::string& root) {
  const std::string text = read_small_file(root + "/proc/cpuinfo");
  std::string_view model = field(text, "model name");
  if (model.starts_with(':')) model = trim(model.substr(1));
  return std::string(model);
}

std::vector<int> read_allowed_cpus(const std::string& root) {
  const std::string status = read_small_file(root + "/proc/self/status");
  return parse_cpu_list(field(status, "Cpus_allowed_list:"));
}

// A quota of 2.5 cores lets two threads run all the time: the third would be throttled.
int usable_cores(std::size_t allowed, const std::optional<double>& quota_cores) {
  double cores = allowed > 0
                     ? static_cast<double>(allowed)
                     : std::max(1.0, static_cast<double>(std::thread::hardware_concurrency()));
  if (quota_cores) cores = std::min(cores, std::floor(*quota_cores));
  return std::max(1, static_cast<int>(cores));
}

std::int64_t kib_field(std::string_view text, std::string_view key) {
  return leading_integer(field(text, key)).value_or(0) * kKibibyte;
}

void read_memory(const std::string& root, const CgroupLimits& limits, Host& host) {
  const std::string meminfo = read_small_file(root + "/proc/meminfo");
  host.memory_bytes = kib_field(meminfo, "MemTotal:");
  host.memory_free_bytes = kib_field(meminfo, "MemAvailable:");
  const auto tighten = [](std::int64_t& bytes, const std::optional<std::int64_t>& limit) {
    if (limit) bytes = bytes > 0 ? std::min(bytes, *limit) : *limit;
  };
  tighten(host.memory_bytes, limits.memory_bytes);
  tighten(host.memory_free_bytes, limits.memory_free_bytes);
}

std::vector<NumaNode> read_numa(const std::string& root, const std::vector<int>& allowed) {
  std::vector<NumaNode> nodes;
  const std::string folder = root + "/sys/devices/system/node/";
  for (const int id : parse_cpu_list(read_small_file(folder + "online"))) {
    const std::string node = folder + "node" + std::to_string(id);
    NumaNode row{id, {}, 0};
    for (const int cpu : parse_cpu_list(read_small_file(node + "/cpulist"))) {
      if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) row.cores.push_back(cpu);
    }
    row.memory_bytes =
        kib_field(read_small_file(node + "/meminfo"), "Node " + std::to_string(id) + " MemTotal:");
    nodes.push_back(std::move(row));
  }
  return nodes;
}

void read_measured(Host& host) {
  try {
    if (auto rates = read_rates(rates_file(host))) {
      host.measured = std::make_shared<const KernelRates>(*std::move(rates));
    }
  } catch (const Error& error) {
    host.measured_problem = error.problems().front();
  }
}

}  // namespace

int count_cores(const std::string& root) {
  return usable_cores(read_allowed_cpus(root).size(), read_cgroup_limits(root).cpu_quota_cores);
}

Host probe_host(const std::string& root) {
  Host host;
  host.name = trim(read_small_file(root + "/proc/sys/kernel/hostname"));
  host.cpu_model = read_cpu_model(root);
  const std::vector<int> allowed = read_allowed_cpus(root);
  const CgroupLimits limits = read_cgroup_limits(root);
  host.cores = usable_cores(allowed.size(), limits.cpu_quota_cores);
  read_memory(root, limits, host);
  host.numa = read_numa(root, allowed);
  if (!root.empty()) return host;
  host.devices = probe_nvml();
  read_measured(host);
  return host;
}

}  // namespace lockstep
