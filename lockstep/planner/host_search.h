// `lockstep plan RUN.toml --search`: into how many ranks of this host, and into which
// micro-batches, a step is best cut. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/planner/search.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::planner {

struct HostLayout {
  parallel::ParallelPlan plan;
  std::string flags;  // "--nproc-per-node 2 --set batch.micro_batch=8 ..."
  std::string why;    // a sentence
};

struct HostSearch {
  std::vector<HostLayout> ranked;  // those that fit, one for each number of ranks, best first
  std::vector<RejectedLayouts> rejected;
  std::int64_t considered = 0;
};

/// Every number of ranks that has a core for each thread, with every micro-batch that divides its
/// part of the batch; quickest first. Within 2 % of the quickest fewer ranks, then larger
/// micro-batches come first.
/// \param global_batch samples of a step, held fixed.
/// \param data_bytes what the data sets take in each rank's memory.
[[nodiscard]] HostSearch search_host(const config::RunConfig& config, const Host& host,
                                     std::int64_t global_batch, std::int64_t data_bytes);

}  // namespace lockstep::planner
