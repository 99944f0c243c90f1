// What `lockstep plan` says about a model on named devices. Pure functions.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/plan_report.h"
#include "lockstep/metrics/text_style.h"
#include "lockstep/planner/cluster_fit.h"
#include "lockstep/planner/cluster_plan.h"

namespace lockstep::cli {

struct ClusterReport {
  planner::ClusterJob job;
  planner::ClusterPlan plan;
  planner::FitAdvice fit;                  // where it does not
  bool distribution_needed = false;        // one device alone does not hold it
  std::optional<double> expected_speedup;  // over one device, at equal micro-batches
  std::vector<std::string> reasons;
  std::vector<Advice> advice;
};

[[nodiscard]] ClusterReport make_cluster_report(planner::ClusterJob job);

/// The document of docs/cli.md, on one line.
[[nodiscard]] std::string cluster_json(const ClusterReport& report);

/// The same for people, at most `width` columns wide.
[[nodiscard]] std::string cluster_for_people(const ClusterReport& report, std::size_t width,
                                             const metrics::TextStyle& style);

}  // namespace lockstep::cli
