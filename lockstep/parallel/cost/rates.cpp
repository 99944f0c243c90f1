#include "lockstep/parallel/cost/rates.h"

#include <algorithm>

namespace lockstep::parallel {

double core_factor(const Setting& setting) {
  const double share = static_cast<double>(setting.host.cores) / setting.world_size;
  const double threads = setting.config.run.threads;
  const bool waits = threads > 1 && threads > share;
  const double turns = share < 1 ? kTakingTurns : 1;
  return turns * (waits ? kOversubscribedThreads : 1) / std::min(threads, share);
}

std::span<const KernelPoint> operator_points(const Setting& setting) {
  const int busy = std::min(setting.world_size, std::max(1, setting.host.cores));
  const KernelPoints* measured =
      points_of(setting.host.rates(), Kernel::linear, busy, setting.host.cores);
  LOCKSTEP_CHECK(measured != nullptr, "rates without products");
  return measured->points;
}

double matmul_flops_per_s(const Setting& setting) {
  double best = 0;
  double in_fp32 = 0;
  for (const KernelPoint& point : operator_points(setting)) {
    if (point.kernel != Kernel::linear || point.forward_s <= 0) continue;
    const double rate = flops_of(point) / point.forward_s;
    if (point.type == setting.config.precision.compute) best = std::max(best, rate);
    if (point.type == config::Dtype::fp32) in_fp32 = std::max(in_fp32, rate);
  }
  return (best > 0 ? best : in_fp32) / core_factor(setting);
}

}  // namespace lockstep::parallel
