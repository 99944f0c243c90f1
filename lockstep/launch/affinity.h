// Which cores each rank may use, from what /sys says of this host.
#pragma once
#include <string>
#include <vector>

#include "lockstep/launch/launch_options.h"

namespace lockstep::launch {

/// The cores of each rank, by local rank; empty = as this process.
/// node, socket, exclusive and core-complex mean what torchrun's --numa-binding does
/// (torch/numa/binding.py): the cores near the GPU of the same number. On a host without NVIDIA
/// GPUs ranks are spread over the NUMA nodes in order.
/// \param root prefix of /proc and /sys, for tests.
/// \throws UsageError when there are fewer cores than ranks that want some of their own.
[[nodiscard]] std::vector<std::vector<int>> cpus_of_ranks(CoreBinding binding, int ranks,
                                                          const std::string& root = "");

/// {0, 1, 2, 5} as "0-2,5".
[[nodiscard]] std::string cpu_list_text(const std::vector<int>& cpus);

}  // namespace lockstep::launch
