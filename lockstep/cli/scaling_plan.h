// What `bench scaling` runs: the configuration of each rank count.
#pragma once
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/metrics/scaling.h"

namespace lockstep::cli {

/// "1,2,4" in ascending order. \throws UsageError for anything but different counts of at least 1.
[[nodiscard]] std::vector<int> parse_rank_counts(const std::string& text);

struct ScalingSteps {
  int warmup = 5;  // run but not measured
  int measured = 20;
};

/// `config` for a measurement on `ranks` ranks: it ends after the steps, without evaluation,
/// checkpoints or a rate that grows with the batch.
/// Weak: micro_batch and accumulation of a rank stay; a configuration that says only global_batch
/// means that of parallel.data ranks (else of one). Strong: the global batch stays, and
/// micro-batches shrink where a rank's part of it is smaller than one. virtual_ranks, where set,
/// follows the leaves of the batch. \throws UsageError where the batch of `config` cannot be
/// settled.
[[nodiscard]] config::RunConfig scaling_config(const config::RunConfig& config, int ranks,
                                               metrics::Scaling scaling, const ScalingSteps& steps);

}  // namespace lockstep::cli
