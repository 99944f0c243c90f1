// `lockstep plan RUN.toml --search`: the report of the best layout that this host has for a run.
#include <utility>

#include "lockstep/cli/plan_report.h"
#include "lockstep/planner/batch_cuts.h"

namespace lockstep::cli {

PlanReport make_searched_report(rundir::CheckedRun run, const Host& host) {
  planner::HostSearch found = planner::search_host(run.config, host, run.plan.batch.global_batch,
                                                   run.data_size.resident_bytes);
  run.config.batch.finds_micro_batch = false;
  if (!found.ranked.empty()) run.plan = found.ranked.front().plan;
  PlanReport report = make_plan_report(run, host, /*states_only=*/false);
  report.alternatives.clear();
  if (!found.ranked.empty()) report.chosen.flags = found.ranked.front().flags;
  for (std::size_t i = 1; i < found.ranked.size(); ++i) {  // the first is the plan
    const planner::HostLayout& row = found.ranked[i];
    PricedPlan priced{row.plan};
    priced.device_memory_bytes = planner::memory_of_rank(host, priced.ranks());
    priced.samples_per_s = static_cast<double>(row.plan.batch.global_batch) / row.plan.step_s;
    priced.flags = row.flags;
    priced.why = row.why;
    report.alternatives.push_back(std::move(priced));
  }
  report.layouts = std::move(found);
  return report;
}

}  // namespace lockstep::cli
