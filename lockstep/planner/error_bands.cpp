#include "lockstep/planner/error_bands.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::planner {
namespace {

using model::ArchitectureKind;

/// Begins of names; these have rows in tests/validation/published_runs.csv.
constexpr std::array<std::string_view, 3> kMeasuredDevices{"A100", "H100", "A64FX"};

bool is_measured(std::string_view device) {
  return std::any_of(kMeasuredDevices.begin(), kMeasuredDevices.end(),
                     [&](std::string_view name) { return device.starts_with(name); });
}

/// All published runs are of GPT and Llama; encoders are the same layers.
bool is_transformer(const ClusterJob& job) {
  const ArchitectureKind kind = job.architecture.kind;
  return kind == ArchitectureKind::decoder || kind == ArchitectureKind::encoder ||
         kind == ArchitectureKind::encoder_decoder;
}

}  // namespace

ErrorBand time_band(const ClusterJob& job) {
  if (!is_transformer(job)) return {0, "nobody knows: no published run is of such a model"};
  if (!job.machine) return {};
  if (!is_measured(job.machine->device.name)) {
    return {kDeviceLeftOut, "runs of devices not fitted to"};
  }
  const Machine usual = usual_machine(job.machine->device, job.machine->devices);
  const bool named = job.network_named || job.machine->between.name != usual.between.name;
  if (!named && job.layout.devices() > job.machine->devices_per_host) {
    return {kNetworkUnknown, "runs over unnamed networks"};
  }
  return {kSourceLeftOut, "runs not fitted to"};
}

ErrorBand memory_band(const ClusterJob& job) {
  if (!is_transformer(job)) return {0, "nobody knows"};
  return {kMeasuredMemory, "23 measured layouts"};
}

}  // namespace lockstep::planner
