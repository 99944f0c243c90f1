// A layout and a search over layouts as a plan shows them: JSON of the contract, lines for people.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cli/plan_cluster.h"
#include "lockstep/cli/plan_table.h"

namespace lockstep::cli {

[[nodiscard]] nlohmann::ordered_json layout_json(const parallel::Layout& layout);

/// "data 8, tensor 8 with sequence, pipeline 16 (1f1b)".
[[nodiscard]] std::string layout_text(const parallel::Layout& layout);

/// What a search ranked behind the plan itself, best first; [] without a search.
[[nodiscard]] nlohmann::ordered_json alternatives_json(const ClusterReport& report);

/// What a search did not take, and why.
[[nodiscard]] nlohmann::ordered_json rejected_json(
    const std::vector<planner::RejectedLayouts>& rejected);
/// The same by kind, a line each.
void add_rejected(const std::vector<planner::RejectedLayouts>& rejected, PlanTable& table);

/// The best layouts, a line each, and what was not taken by kind.
void add_search(const ClusterReport& report, PlanTable& table);

}  // namespace lockstep::cli
