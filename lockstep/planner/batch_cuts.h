// batch.micro_batch = "auto": into which micro-batches a step can be cut, which cut to start with,
// and which of those that were tried is best. Pure functions, so that all ranks come to the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::planner {

struct BatchCuts {
  /// The same global batch cut ever finer: each micro-batch is at most half of the one before, the
  /// last one is 1. The first is expected to be the fastest of those that fit.
  std::vector<parallel::ParallelPlan> cuts;
  std::int64_t memory_limit_bytes = 0;  // what a rank may take; 0 = unknown
  std::optional<parallel::ParallelPlan> too_large{};  // the next coarser cut, where it does not fit
};

/// What a rank may take of `host`, which `ranks` share: a tenth of what is free stays so.
[[nodiscard]] std::int64_t memory_of_rank(const Host& host, int ranks);

/// \param config has a batch that settle_batch() takes.
/// \param given the micro-batch of the first cut, whatever is predicted of it; 0 = as predicted.
[[nodiscard]] BatchCuts batch_cuts(const config::RunConfig& config, const Host& host,
                                   int world_size, std::int64_t data_bytes, std::int64_t given = 0);

/// `config` with the numbers of `plan` where its micro-batch was to be found.
[[nodiscard]] config::RunConfig with_found_batch(config::RunConfig config,
                                                 const parallel::ParallelPlan& plan);

/// What trying a cut showed; equal on all ranks.
struct ProbedCut {
  std::size_t cut = 0;  // place in BatchCuts::cuts
  bool fits = false;    // on every rank
  double samples_per_s = 0;
  std::int64_t needed_bytes = 0;  // of the fullest rank
};

/// The cut to try next: finer ones until one fits, then the next finer, and on while that is
/// faster. Nothing when it is clear which to take.
[[nodiscard]] std::optional<std::size_t> next_probe(std::span<const ProbedCut> probed,
                                                    std::size_t cuts);
/// The fastest that fits; a finer cut must be clearly faster. Where none fits: the finest tried.
[[nodiscard]] const ProbedCut& best_probe(std::span<const ProbedCut> probed);

}  // namespace lockstep::planner
