// The table of devices. Peaks, bandwidths and memory: NVIDIA's datasheets of V100 (2018), A100
// (2021), H100 and H200 (SXM, 2023), B200 (HGX, 2024) and the Ada whitepaper (2022); Fujitsu's
// datasheet of the A64FX (2020) at 2.0 GHz. Memory is what nvidia-smi reports.
// most_efficiency and half_size of A100, H100 and A64FX: planner/calibration over
// tests/validation/published_runs.csv (docs/validation.md). A device without published runs takes
// those of the nearest one that has some, half_size by its peak over its bandwidth.
// attention_efficiency: Dao 2023 (arXiv:2307.08691), figures 4 to 7; Shah et al. 2024
// (arXiv:2407.08608), abstract: 35 % on H100. memory_efficiency: Azure/AI-benchmarking-guide,
// STREAM triad on A100, H100 and H200; A64FX reaches 0.8 of its own in STREAM too (Dongarra 2020).
#include <array>
#include <cctype>

#include "lockstep/base/nearest.h"
#include "lockstep/topology/machine.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// name, source, memory, half, single, memory B/s, most, half size, attention, memory eff., launch,
// flash attention: scaled_dot_product_attention has a kernel from compute capability 8.0 on
// (PyTorch 2.11, ATen/native/transformers/cuda/sdp_utils.cpp).
constexpr auto kDevices = std::to_array<DeviceModel>({
    {"V100-16G", "datasheet; efficiency as A100", 16160 * kMiB, 125e12, 15.7e12, 0.9e12, 0.768, 111,
     0.40, 0.85, 5e-6},
    {"V100-32G", "datasheet; efficiency as A100", 32510 * kMiB, 125e12, 15.7e12, 0.9e12, 0.768, 111,
     0.40, 0.85, 5e-6},
    {"A100-40G", "datasheet; fitted together with A100-80G", 40536 * kMiB, 312e12, 19.5e12,
     1.555e12, 0.768, 159.8, 0.65, 0.83, 5e-6, true},
    {"A100-80G", "datasheet; fitted to 38 published runs", 81251 * kMiB, 312e12, 19.5e12, 2.039e12,
     0.768, 121.9, 0.65, 0.83, 5e-6, true},
    {"H100-80G", "datasheet; fitted to 8 published runs", 81559 * kMiB, 989e12, 67e12, 3.35e12,
     0.629, 208.2, 0.35, 0.89, 5e-6, true},
    {"H200-141G", "datasheet; efficiency as H100", 143771 * kMiB, 989e12, 67e12, 4.8e12, 0.629,
     145.3, 0.35, 0.86, 5e-6, true},
    {"B200-180G", "datasheet; efficiency as H100", 183359 * kMiB, 2250e12, 75e12, 8.0e12, 0.629,
     198.4, 0.35, 0.86, 5e-6, true},
    {"RTX4090-24G", "Ada whitepaper; efficiency as A100", 24564 * kMiB, 165e12, 82.6e12, 1.008e12,
     0.768, 131, 0.65, 0.90, 5e-6, true},
    {"A64FX", "datasheet; fitted to 11 published runs", 32768 * kMiB, 12.29e12, 6.144e12, 1.024e12,
     0.277, 254, 0.20, 0.80, 20e-6},
    // One core: parallel/cost/rates.h says what was measured.
    {"CPU-core", "measured on an AMD EPYC (Zen 4) with LibTorch 2.11", 0, 200e9, 85e9, 12.5e9, 1.0,
     4, 0.50, 1.0, 4e-6},
});

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const DeviceModel> device_models() { return kDevices; }

const DeviceModel* find_device(std::string_view name) {
  for (const DeviceModel& device : kDevices) {
    if (same_name(device.name, name)) return &device;
  }
  return nullptr;
}

std::vector<Problem> check_device(std::string_view name, std::string_view where) {
  if (find_device(name) != nullptr) return {};
  std::vector<std::string_view> names;
  std::string all;
  for (const DeviceModel& device : kDevices) {
    names.push_back(device.name);
    if (!all.empty()) all += ", ";
    all += device.name;
  }
  return {{"LS-6111", std::string(where), "no device is called " + std::string(name),
           did_you_mean(name, names, "one of " + all)}};
}

}  // namespace lockstep
