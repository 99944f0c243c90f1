#include "lockstep/parallel/cost/rates.h"

#include <algorithm>

namespace lockstep::parallel {

RankRates rank_rates(const Setting& setting) {
  const bool bf16 = setting.config.precision.compute == config::Dtype::bf16;
  const double share = static_cast<double>(setting.host.cores) / setting.world_size;
  const double threads = setting.config.run.threads;
  const bool waits = threads > 1 && threads > share;
  const double cores = std::min(threads, share) / (waits ? kOversubscribedThreads : 1);
  RankRates rates;
  rates.crowding = std::max(1.0, 1 / share);
  rates.matmul_flops_per_s = cores * (bf16 ? kCoreBf16FlopsPerS : kCoreFp32FlopsPerS);
  rates.copy_bytes_per_s = cores * kCoreCopyBytesPerS;
  if (setting.host.devices.empty()) return rates;
  const Device& device = setting.host.devices.front();
  // CPUs here multiply fp16 in fp32 (model/products.h); devices as fast as bf16.
  const bool narrow = setting.config.precision.compute != config::Dtype::fp32;
  const double known = narrow ? device.bf16_flops_per_s : device.fp32_flops_per_s;
  if (known > 0) rates.matmul_flops_per_s = known;
  return rates;
}

}  // namespace lockstep::parallel
