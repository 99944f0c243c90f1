// The table of links. Line rates: the standards' and NVIDIA's datasheets. Efficiencies: NVLink by
// nccl-tests all_reduce (Azure/AI-benchmarking-guide: 230 GB/s on A100 of 300; with switches that
// add up more, so 370 of 450 on H100 counts no such help); InfiniBand, RoCE and Tofu-D by
// planner/calibration over tests/validation/published_runs.csv; Ethernet by TCP's usual share.
#include <algorithm>
#include <array>

#include "lockstep/base/nearest.h"
#include "lockstep/topology/machine.h"

namespace lockstep {
namespace {

constexpr double kNetwork = 0.63;  // what collectives reach of a network card between hosts

// name, source, bytes/s of one direction, efficiency, latency
constexpr auto kLinks = std::to_array<LinkModel>({
    {"NVLink 2", "V100 datasheet: 300 GB/s both ways", 150e9, 0.80, 10e-6},
    {"NVLink 3", "A100 datasheet: 600 GB/s both ways", 300e9, 0.78, 10e-6},
    {"NVLink 4", "H100 datasheet: 900 GB/s both ways", 450e9, 0.82, 8e-6},
    {"NVLink 5", "B200 datasheet: 1.8 TB/s both ways", 900e9, 0.82, 8e-6},
    {"PCIe 3", "16 lanes of 8 GT/s", 15.75e9, 0.75, 10e-6},
    {"PCIe 4", "16 lanes of 16 GT/s", 31.5e9, 0.75, 10e-6},
    {"PCIe 5", "16 lanes of 32 GT/s", 63e9, 0.75, 10e-6},
    {"EDR InfiniBand", "100 Gb/s", 12.5e9, kNetwork, 5e-6},
    {"HDR InfiniBand", "200 Gb/s", 25e9, kNetwork, 5e-6},
    {"NDR InfiniBand", "400 Gb/s", 50e9, kNetwork, 5e-6},
    {"RoCE 200", "200 Gb/s", 25e9, kNetwork, 8e-6},
    {"RoCE 400", "400 Gb/s", 50e9, kNetwork, 8e-6},
    {"100 GbE", "TCP", 12.5e9, 0.60, 30e-6},
    {"25 GbE", "TCP", 3.125e9, 0.80, 30e-6},
    {"10 GbE", "TCP", 1.25e9, 0.90, 30e-6},
    {"1 GbE", "TCP", 0.125e9, 0.94, 50e-6},
    {"Tofu-D", "Ajima et al. 2018: 6.8 GB/s a port", 6.8e9, 0.66, 5e-6},
    {"shared memory", "measured, parallel/cost/rates.h", 6e9, 1.0, 5e-6},
});

const LinkModel& link(std::string_view name) { return *find_link(name); }

struct Usual {
  std::string_view device;  // how its name begins
  int per_host;
  std::string_view inside;
  std::string_view between;
  std::string_view to_host;
};

constexpr auto kUsual = std::to_array<Usual>({
    {"V100", 8, "NVLink 2", "EDR InfiniBand", "PCIe 3"},
    {"A100", 8, "NVLink 3", "HDR InfiniBand", "PCIe 4"},
    {"H100", 8, "NVLink 4", "NDR InfiniBand", "PCIe 5"},
    {"H200", 8, "NVLink 4", "NDR InfiniBand", "PCIe 5"},
    {"B200", 8, "NVLink 5", "NDR InfiniBand", "PCIe 5"},
    {"RTX4090", 8, "PCIe 4", "25 GbE", "PCIe 4"},
    {"A64FX", 1, "Tofu-D", "Tofu-D", "Tofu-D"},
    {"CPU", 64, "shared memory", "10 GbE", "shared memory"},
});

}  // namespace

std::span<const LinkModel> link_models() { return kLinks; }

const LinkModel* find_link(std::string_view name) {
  const auto* row = std::find_if(kLinks.begin(), kLinks.end(), [&](const LinkModel& candidate) {
    return candidate.name == name;
  });
  return row == kLinks.end() ? nullptr : row;
}

std::vector<Problem> check_link(std::string_view name, std::string_view where) {
  if (find_link(name) != nullptr) return {};
  std::vector<std::string_view> names;
  std::string all;
  for (const LinkModel& candidate : kLinks) {
    names.push_back(candidate.name);
    if (!all.empty()) all += ", ";
    all += candidate.name;
  }
  return {{"LS-6112", std::string(where), "no link is called " + std::string(name),
           did_you_mean(name, names, "one of " + all)}};
}

Machine usual_machine(const DeviceModel& device, std::int64_t devices) {
  const auto* usual = std::find_if(kUsual.begin(), kUsual.end(), [&](const Usual& row) {
    return device.name.starts_with(row.device);
  });
  if (usual == kUsual.end()) usual = &kUsual[2];
  return {device,
          devices,
          usual->per_host,
          link(usual->inside),
          link(usual->between),
          link(usual->to_host)};
}

}  // namespace lockstep
