// What `lockstep plan` answers of named devices beside memory and time: the best layout, whether it
// is done in time, what failures cost, and the step as a trace.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/args.h"
#include "lockstep/planner/advice.h"
#include "lockstep/planner/cluster_plan.h"
#include "lockstep/planner/goodput.h"

namespace lockstep::cli {

struct ClusterQuestions {
  bool search = false;
  double need_within_s = 0;  // 0 = not asked
  /// Units are counted later; unset: nobody said how often devices fail.
  std::optional<planner::GoodputQuestion> failures{};
  std::vector<std::string> assumptions{};
  std::string timeline{};  // file to write; empty = none
  planner::TrainingFacts facts{};
};

/// \pre check_questions finds nothing.
[[nodiscard]] ClusterQuestions read_questions(const Args& args);

/// Durations that are none, and flags that need or contradict each other: LS-1013, LS-1020.
void check_questions(const Args& args, std::vector<Problem>& problems);

/// Writes the simulated step as a Chrome trace, whole or not at all. \pre the time is predicted.
/// \throws UsageError for more events than a viewer takes, EnvironmentFault when it cannot be
/// written.
void write_timeline(const planner::ClusterJob& job, const planner::ClusterPlan& plan,
                    const std::string& file);

}  // namespace lockstep::cli
