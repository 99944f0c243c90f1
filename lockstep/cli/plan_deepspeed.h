// A filled ds_config.json as a plan shows it: JSON beside the contract's keys, lines for people.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "lockstep/cli/plan_cluster.h"
#include "lockstep/cli/plan_table.h"

namespace lockstep::cli {

/// {file, filled: {key: value}, because: {key: why}, left: {key: why}, config: the whole file};
/// null without one.
[[nodiscard]] nlohmann::ordered_json deepspeed_json(const ClusterReport& report);

/// Each "auto" with its value and why, a line each.
void add_deepspeed(const ClusterReport& report, PlanTable& table);

}  // namespace lockstep::cli
