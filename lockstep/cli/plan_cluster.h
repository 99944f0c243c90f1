// What `lockstep plan` says about a model on named devices. Pure functions.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/plan_questions.h"
#include "lockstep/cli/plan_report.h"
#include "lockstep/metrics/text_style.h"
#include "lockstep/planner/advice.h"
#include "lockstep/planner/cluster_fit.h"
#include "lockstep/planner/cluster_plan.h"
#include "lockstep/planner/deepspeed_fill.h"
#include "lockstep/planner/search.h"

namespace lockstep::cli {

/// Whether the training is done in time.
struct DoneWithin {
  std::int64_t devices = 0;  // that are quick enough: the fewest, where layouts were searched for
  double train_s = 0;        // with them, else the shortest known; may be infinite
  std::string sentence;
};

struct ClusterReport {
  planner::ClusterJob job;  // of a search, in the best layout
  ClusterQuestions questions;
  planner::ClusterPlan plan;
  planner::FitAdvice fit;  // where it does not
  planner::Distribution distribution;
  std::vector<Advice> ways;                       // to make it fit
  std::vector<planner::GivenAdvice> advice;       // what rules say
  std::optional<planner::SearchResult> search{};  // where one was asked for
  std::optional<DoneWithin> within{};
  std::optional<planner::Goodput> goodput{};
  std::optional<planner::FilledDeepSpeed> deepspeed{};  // the file that was given
};

/// \throws UsageError where no layout of so many devices can share the global batch.
[[nodiscard]] ClusterReport make_cluster_report(planner::ClusterJob job,
                                                ClusterQuestions questions = {});

/// Of the training that was asked for, without failures; 0 = unknown.
[[nodiscard]] double train_seconds(const ClusterReport& report);

/// The document of docs/cli.md, on one line.
[[nodiscard]] std::string cluster_json(const ClusterReport& report);

/// The same for people, at most `width` columns wide.
[[nodiscard]] std::string cluster_for_people(const ClusterReport& report, std::size_t width,
                                             const metrics::TextStyle& style);

}  // namespace lockstep::cli
