// The flags of `lockstep plan`, and the question they ask: a run on this host, or a model on
// devices that are named.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/planner/cluster_plan.h"

namespace lockstep::cli {

[[nodiscard]] std::span<const Flag> plan_flags();

/// Whether a flag names a model or devices.
[[nodiscard]] bool asks_for_cluster(const Args& args);

/// Flags that contradict each other, both of them named: LS-1020.
[[nodiscard]] std::vector<Problem> check_plan_flags(const Args& args, const Context& context);

/// \pre asks_for_cluster. The model is --model's, that of --params, or that of RUN.toml and --set,
/// which also give batch and precision where no flag does. \throws UsageError with every problem of
/// model, devices, precision, batch and layout at once.
[[nodiscard]] planner::ClusterJob read_cluster_job(const Args& args);

struct SetArgs {
  Args args;
  std::vector<Problem> problems;
};

/// With --model or --params there is no RUN.toml: what --set says of batch, layout, memory and
/// precision is taken as the flag for it.
[[nodiscard]] SetArgs with_sets_as_flags(const Args& args);

/// "7e9", "6805e6", "7B", "1.3b", "350M" as a number; nothing when it is none above 0.
[[nodiscard]] std::optional<double> read_parameters(std::string_view text);

}  // namespace lockstep::cli
