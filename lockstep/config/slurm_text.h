// The two compressed notations of Slurm's environment variables.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::config {

/// The first host of a node list: "gn10" of "gn[10,20,25-27]", "a1" of "a1,b[2-3]". Empty when the
/// text is no node list.
[[nodiscard]] std::string first_slurm_host(std::string_view node_list);

/// Tasks on node `node` by SLURM_TASKS_PER_NODE: "4(x3),2" gives 4, 4, 4, 2. Nothing when the text
/// is malformed or has fewer nodes.
[[nodiscard]] std::optional<int> slurm_tasks_on_node(std::string_view tasks_per_node, int node);

}  // namespace lockstep::config
