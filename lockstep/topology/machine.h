// A cluster as plans see it: one kind of device, in hosts, with links between them. Made from
// "--gpus 64 --gpu A100-80G", from a cluster file, or from what was measured here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// At most ten numbers a device. Peaks and bandwidths are a datasheet's; efficiencies are what
/// large, well shaped work reaches of them.
struct DeviceModel {
  std::string_view name;          // "A100-80G"
  std::string_view source;        // where the numbers come from
  std::int64_t memory_bytes = 0;  // as its driver reports; 0: what the host has
  double half_flops_per_s = 0;    // peak of 16-bit products with fp32 sums, dense
  double single_flops_per_s = 0;  // peak of fp32 products
  double memory_bytes_per_s = 0;
  double most_efficiency = 0;       // of the peak, by a product without end
  double half_size = 0;             // size (operator_time.h) at which half of that is reached
  double attention_efficiency = 0;  // of the peak, by FlashAttention-2 forward, 128 wide
  double memory_efficiency = 0;     // of memory_bytes_per_s, by pointwise operators
  double launch_s = 0;              // of one operator that the host cannot hide
  bool flash_attention = false;     // PyTorch 2 has a kernel for it
};

/// What one device sends to others, while all do.
struct LinkModel {
  std::string_view name;  // "NVLink 3", "HDR InfiniBand", "10 GbE", "shared memory"
  std::string_view source;
  double line_bytes_per_s = 0;  // one direction, of a device's own share
  double efficiency = 1;        // of that, by the payload of large collectives
  double latency_s = 0;         // of one step
  [[nodiscard]] double bytes_per_s() const { return line_bytes_per_s * efficiency; }
};

struct Machine {
  DeviceModel device;
  std::int64_t devices = 1;
  int devices_per_host = 8;
  LinkModel inside;   // a host
  LinkModel between;  // hosts, of one device
  LinkModel to_host;  // what is offloaded takes it
};

[[nodiscard]] std::span<const DeviceModel> device_models();
[[nodiscard]] std::span<const LinkModel> link_models();
/// By name, as --gpu takes it; case does not count. Null where there is none.
[[nodiscard]] const DeviceModel* find_device(std::string_view name);
[[nodiscard]] const LinkModel* find_link(std::string_view name);
/// LS-6111, LS-6112 with the nearest name, where there is none of that name.
[[nodiscard]] std::vector<Problem> check_device(std::string_view name, std::string_view where);
[[nodiscard]] std::vector<Problem> check_link(std::string_view name, std::string_view where);

/// So many devices with the links they are usually sold with: eight a host and a network card for
/// each (NVIDIA's DGX and HGX boards), one a host (A64FX), ...
[[nodiscard]] Machine usual_machine(const DeviceModel& device, std::int64_t devices);

}  // namespace lockstep
