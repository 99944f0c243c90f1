// How fast one rank multiplies matrices: the peak that MFU is a share of.
#pragma once
#include <span>

#include "lockstep/parallel/cost/strategy_cost.h"

namespace lockstep::parallel {

/// Threads of a rank wait for each other at every operator; where the ranks together have more
/// threads than the host has cores, a thread that lost its core keeps the others waiting. Measured
/// with 2 ranks of 2 threads on 2 cores: 2.4 times as long for a GPT, 3.1 times for an MLP.
inline constexpr double kOversubscribedThreads = 2.5;

/// Ranks that take turns on a core push each other's data out of its caches. Measured with 4 ranks
/// on 2 cores: a GPT takes 2.04 to 2.17 times as long as with 2 ranks, a ResNet 2.12 to 2.16 times.
inline constexpr double kTakingTurns = 1.06;

/// How many times as long an operator takes on a rank as on one core that it has to itself.
[[nodiscard]] double core_factor(const Setting& setting);

/// The measured points that operators of a rank go by: of as many busy ranks, at most one a core.
[[nodiscard]] std::span<const KernelPoint> operator_points(const Setting& setting);

/// FLOP/s of one rank in the compute type: the best product among them, over core_factor().
[[nodiscard]] double matmul_flops_per_s(const Setting& setting);

}  // namespace lockstep::parallel
