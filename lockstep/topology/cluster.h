// What the machines offer: devices, cores, memory, links. A value, filled by probe() or by hand.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/topology/kernel_rates.h"

namespace lockstep {

/// One compute device as the planner sees it: a GPU, or the CPU share of one rank.
struct Device {
  std::string name = "cpu";       // "cpu", "H200", ...
  std::int64_t memory_bytes = 0;  // usable by one rank
};

struct NumaNode {
  int id = 0;
  std::vector<int> cores;
  std::int64_t memory_bytes = 0;
};

/// One host: what /proc, /sys and NVML say.
struct Host {
  std::string name;
  std::string cpu_model;
  int cores = 1;                  // that this process may use (affinity and cgroup quota)
  std::int64_t memory_bytes = 0;  // the smaller of RAM and the cgroup limit
  std::int64_t memory_free_bytes = 0;
  std::vector<NumaNode> numa;
  std::vector<Device> devices;                    // accelerators; empty on a CPU host
  std::shared_ptr<const KernelRates> measured{};  // of its cores; null = nobody has measured them
  std::optional<Problem> measured_problem{};      // why what was measured cannot be read
  [[nodiscard]] const KernelRates& rates() const { return measured ? *measured : typical_rates(); }
};

struct Cluster {
  std::vector<Host> hosts;
};

/// Reads this host, and what `plan --calibrate` kept of it. Never throws: what cannot be read stays
/// at its default.
/// \param root prefix of /proc and /sys, for tests.
[[nodiscard]] Host probe_host(const std::string& root = "");
/// The cores of probe_host() alone: devices and memory take longer to ask.
[[nodiscard]] int count_cores(const std::string& root = "");
[[nodiscard]] inline Cluster probe_cluster() { return {{probe_host()}}; }

}  // namespace lockstep
