// How fast one rank computes and communicates: what the seconds of an estimate are made of.
#pragma once
#include "lockstep/parallel/cost/strategy_cost.h"

namespace lockstep::parallel {

/// Rates of a CPU core, measured on one core of an AMD EPYC (Zen 4) with LibTorch 2.11: large
/// matrix products, a copy from memory to memory, and all_reduce over shared memory.
inline constexpr double kCoreFp32FlopsPerS = 85e9;
inline constexpr double kCoreBf16FlopsPerS = 200e9;
inline constexpr double kCoreCopyBytesPerS = 12.5e9;
inline constexpr double kSharedBytesPerS = 6e9;   // payload of one rank, from 4 MiB on
inline constexpr double kSharedLatencyS = 5e-6;   // of a small all_reduce

/// Threads of a rank wait for each other at every operator; where the ranks together have more
/// threads than the host has cores, a thread that lost its core keeps the others waiting. Measured
/// with 2 ranks of 2 threads on 2 cores: 2.4 times as long for a GPT, 3.1 times for an MLP.
inline constexpr double kOversubscribedThreads = 2.5;

struct RankRates {
  double matmul_flops_per_s = 0;  // in the compute type
  double copy_bytes_per_s = 0;
  double crowding = 1;  // how many ranks share a core; 1 where each has its own
};

/// Rates of one rank: of its device where the host has one with known rates, else of its share of
/// the host's cores.
[[nodiscard]] RankRates rank_rates(const Setting& setting);

}  // namespace lockstep::parallel
