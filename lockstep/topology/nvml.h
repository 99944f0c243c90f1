// NVIDIA's management library, loaded at run time where it exists: names and memory of the GPUs.
#pragma once
#include <vector>

#include "lockstep/topology/cluster.h"

namespace lockstep {

/// nvmlMemory_t of NVML's API reference: bytes.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// The functions used, by their names without "nvml"; each returns 0 on success.
struct NvmlApi {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_count)(unsigned* count) = nullptr;
  int (*device_by_index)(unsigned index, void** device) = nullptr;
  int (*device_name)(void* device, char* name, unsigned length) = nullptr;
  int (*device_memory)(void* device, NvmlMemory* memory) = nullptr;
};

/// Every device that answers. \param api all functions set.
[[nodiscard]] std::vector<Device> read_devices(const NvmlApi& api);

/// Devices of this host; empty where libnvidia-ml.so.1 or a driver is missing.
[[nodiscard]] std::vector<Device> probe_nvml();

}  // namespace lockstep
