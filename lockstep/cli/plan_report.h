// What `lockstep plan` says about a run: the plan, what else is possible, and advice. Pure
// functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/metrics/text_style.h"
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/planner/host_search.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/run_check.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::cli {

struct Advice {
  std::string say;
  std::string because;
  std::string source;  // the part of the plan or the document it comes from
};

/// One way to spread the run, priced.
struct PricedPlan {
  parallel::ParallelPlan plan;
  std::int64_t device_memory_bytes = 0;  // that one rank may use; 0 = unknown
  double samples_per_s = 0;              // over all ranks; 0 = not predicted
  std::string flags{};                   // of a search: what to type for it
  std::string why{};                     // a sentence
  [[nodiscard]] int ranks() const { return plan.batch.data_ranks; }
  [[nodiscard]] bool fits() const {
    return device_memory_bytes == 0 || plan.memory.total() <= device_memory_bytes;
  }
};

struct PlanReport {
  config::RunConfig config;
  data::DataSize data_size;
  model::ModelStats model;
  bool measured_rates = false;  // times go by `plan --calibrate`
  double peak_flops_per_s = 0;  // matmul rate of one rank; 0 = unknown
  PricedPlan chosen;
  bool states_only = false;           // memory is that of parameters, gradients and optimizer alone
  std::optional<std::int64_t> steps;  // of the whole run; nothing where the data do not tell
  std::vector<PricedPlan> alternatives;    // other rank counts on this host, fastest first
  bool distribution_needed = false;        // one rank alone does not fit
  std::optional<double> expected_speedup;  // of the fastest that fits over one rank, at equal batch
  std::vector<std::string> reasons;
  std::vector<Advice> advice;
  std::vector<std::string> assumptions;
  std::optional<planner::BatchSearch> search{};  // where the micro-batch was found
  std::optional<planner::HostSearch> layouts{};  // where layouts were searched for: --search
};

/// "1.2k samples/s", or tokens where samples have some.
[[nodiscard]] std::string speed_text(const model::ModelStats& model, double samples_per_s);

/// The report of the best layout on this host: alternatives are what the search ranked behind it.
/// Where nothing fits, the run stays as it is. \pre the run was checked.
[[nodiscard]] PlanReport make_searched_report(rundir::CheckedRun run, const Host& host);

/// \param states_only count parameters, gradients and optimizer state alone.
[[nodiscard]] PlanReport make_plan_report(const rundir::CheckedRun& run, const Host& host,
                                          bool states_only);

/// The document of docs/cli.md, on one line.
[[nodiscard]] std::string plan_json(const PlanReport& report);

/// The same for people, at most `width` columns wide.
[[nodiscard]] std::string plan_for_people(const PlanReport& report, std::size_t width,
                                          const metrics::TextStyle& style);

}  // namespace lockstep::cli
