#include "lockstep/cli/plan_cluster.h"

#include <utility>

#include "lockstep/base/units.h"

namespace lockstep::cli {
namespace {

void judge_distribution(ClusterReport& report) {
  const std::int64_t memory = report.plan.device_memory_bytes;
  if (memory == 0) {
    report.reasons.emplace_back("no device was named (--gpu)");
    return;
  }
  const planner::ClusterPlan alone = planner::plan_alone(report.job);
  const std::int64_t needs = alone.memory.device.total();
  report.distribution_needed = needs > memory;
  report.reasons.push_back("one device needs " + format_bytes(needs) + " of " +
                           format_bytes(memory) +
                           (report.job.states_only ? " for states alone" : ""));
  if (report.distribution_needed || !(alone.samples_per_s > 0)) return;
  if (report.plan.fits().value_or(false) && report.plan.samples_per_s > 0) {
    report.expected_speedup = report.plan.samples_per_s / alone.samples_per_s;
    report.reasons.push_back("all devices process " + format_short(report.plan.samples_per_s) +
                             " samples/s, one " + format_short(alone.samples_per_s));
  }
}

void advise(ClusterReport& report) {
  if (report.plan.fits().value_or(true)) return;
  const std::string memory = format_bytes(report.plan.device_memory_bytes);
  if (report.fit.devices_for_states > report.job.layout.devices()) {
    report.advice.push_back({"at least " + counted(report.fit.devices_for_states, "device"),
                             "states alone take as many of " + memory +
                                 ", shared by all; activations and buffers come on top",
                             "memory_bytes"});
  }
  const std::string what = report.job.states_only ? " of states alone" : "";
  for (const planner::WayToFit& way : report.fit.ways) {
    report.advice.push_back({way.flags,
                             counted(way.devices, "device") +
                                 (way.devices == 1 ? " then holds " : " then hold ") +
                                 format_bytes(way.total_bytes) + what + " of " + memory +
                                 (way.devices == 1 ? "" : " each"),
                             "docs/planning.md, memory"});
  }
  if (report.fit.ways.empty()) {
    report.advice.push_back(
        {"a smaller model or longer pipelines",
         "neither sharing, offloading nor splitting layers as usual makes it fit",
         "docs/planning.md, memory"});
  }
}

}  // namespace

ClusterReport make_cluster_report(planner::ClusterJob job) {
  ClusterReport report;
  report.job = std::move(job);
  report.plan = planner::plan_cluster(report.job);
  judge_distribution(report);
  if (!report.plan.fits().value_or(true)) report.fit = planner::ways_to_fit(report.job);
  advise(report);
  return report;
}

}  // namespace lockstep::cli
