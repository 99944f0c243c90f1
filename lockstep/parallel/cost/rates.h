// How fast one rank computes and communicates: what the seconds of an estimate are made of.
#pragma once
#include "lockstep/parallel/cost/strategy_cost.h"

namespace lockstep::parallel {

/// Rates of a CPU core, measured on one core of an AMD EPYC (Zen 4) with LibTorch 2.11: large
/// matrix products, a copy from memory to memory, and all_reduce over Gloo on one host.
inline constexpr double kCoreFp32FlopsPerS = 85e9;
inline constexpr double kCoreBf16FlopsPerS = 200e9;
inline constexpr double kCoreCopyBytesPerS = 12.5e9;
inline constexpr double kGlooBytesPerS = 1.4e9;   // payload of one rank, from 4 MiB on
inline constexpr double kGlooLatencyS = 300e-6;   // of a small all_reduce
inline constexpr double kBlockOverheadS = 60e-6;  // launching the operators of a block's forward

struct RankRates {
  double matmul_flops_per_s = 0;  // in the compute type
  double copy_bytes_per_s = 0;
};

/// Rates of one rank: of its device where the host has one with known rates, else of its share of
/// the host's cores.
[[nodiscard]] RankRates rank_rates(const Setting& setting);

}  // namespace lockstep::parallel
