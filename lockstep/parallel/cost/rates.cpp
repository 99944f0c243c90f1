#include "lockstep/parallel/cost/rates.h"

#include <algorithm>

namespace lockstep::parallel {
namespace {

double best_product(const Setting& setting) {
  const int busy = std::min(setting.world_size, std::max(1, setting.host.cores));
  const KernelPoints* measured = points_of(setting.host.rates(), Kernel::linear, busy);
  LOCKSTEP_CHECK(measured != nullptr, "rates without products");
  double best = 0;
  double in_fp32 = 0;
  for (const KernelPoint& point : measured->points) {
    if (point.kernel != Kernel::linear) continue;
    const double rate = 2 * point.size[0] * point.size[1] * point.size[2] / point.forward_s;
    if (point.type == setting.config.precision.compute) best = std::max(best, rate);
    if (point.type == config::Dtype::fp32) in_fp32 = std::max(in_fp32, rate);
  }
  return best > 0 ? best : in_fp32;
}

}  // namespace

double core_factor(const Setting& setting) {
  const double share = static_cast<double>(setting.host.cores) / setting.world_size;
  const double threads = setting.config.run.threads;
  const bool waits = threads > 1 && threads > share;
  const double turns = share < 1 ? kTakingTurns : 1;
  return turns * (waits ? kOversubscribedThreads : 1) / std::min(threads, share);
}

double matmul_flops_per_s(const Setting& setting) {
  if (!setting.host.devices.empty()) {
    const Device& device = setting.host.devices.front();
    // CPUs here multiply fp16 in fp32 (model/products.h); devices as fast as bf16.
    const bool narrow = setting.config.precision.compute != config::Dtype::fp32;
    const double known = narrow ? device.bf16_flops_per_s : device.fp32_flops_per_s;
    if (known > 0) return known;
  }
  return best_product(setting) / core_factor(setting);
}

}  // namespace lockstep::parallel
