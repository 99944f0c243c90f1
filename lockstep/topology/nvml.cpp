#include "lockstep/topology/nvml.h"

#include <dlfcn.h>

#include <array>
#include <memory>

namespace lockstep {
namespace {

constexpr unsigned kMostDevices = 1024;

template <typename Function>
bool find_symbol(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

bool load(void* library, NvmlApi& api) {
  return find_symbol(library, "nvmlInit_v2", api.init) &&
         find_symbol(library, "nvmlShutdown", api.shutdown) &&
         find_symbol(library, "nvmlDeviceGetCount_v2", api.device_count) &&
         find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", api.device_by_index) &&
         find_symbol(library, "nvmlDeviceGetName", api.device_name) &&
         find_symbol(library, "nvmlDeviceGetMemoryInfo", api.device_memory);
}

}  // namespace

std::vector<Device> read_devices(const NvmlApi& api) {
  std::vector<Device> devices;
  if (api.init() != 0) return devices;
  unsigned count = 0;
  if (api.device_count(&count) != 0 || count > kMostDevices) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    void* handle = nullptr;
    std::array<char, 96> name{};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
    NvmlMemory memory{};
    if (api.device_by_index(i, &handle) != 0) continue;
    if (api.device_name(handle, name.data(), name.size() - 1) != 0) continue;
    if (api.device_memory(handle, &memory) != 0) continue;
    devices.push_back({name.data(), static_cast<std::int64_t>(memory.total)});
  }
  api.shutdown();
  return devices;
}

std::vector<Device> probe_nvml() {
  const auto close = [](void* library) { ::dlclose(library); };
  const std::unique_ptr<void, decltype(close)> library(
      ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), close);
  NvmlApi api;
  if (!library || !load(library.get(), api)) return {};
  return read_devices(api);
}

}  // namespace lockstep
