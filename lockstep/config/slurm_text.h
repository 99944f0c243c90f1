// The compressed notations of Slurm's environment variables.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::config {

/// Hosts that a node list may name.
inline constexpr std::size_t kMostSlurmHosts = 65'536;

/// The hosts of a node list in its order: "gn[10,20,25-27],x[001-003]-b" gives gn10, gn20, gn25,
/// gn26, gn27, x001-b, x002-b, x003-b; "r[0-1]n[0-1]" gives r0n0, r0n1, r1n0, r1n1. Nothing when
/// the text is no node list, or names more than kMostSlurmHosts.
[[nodiscard]] std::optional<std::vector<std::string>> slurm_hosts(std::string_view node_list);

/// The first of them; empty when the text is no node list.
[[nodiscard]] std::string first_slurm_host(std::string_view node_list);

/// Tasks on node `node` by SLURM_TASKS_PER_NODE: "4(x3),2" gives 4, 4, 4, 2. Nothing when the text
/// is malformed or has fewer nodes.
[[nodiscard]] std::optional<int> slurm_tasks_on_node(std::string_view tasks_per_node, int node);

/// 15000 and the last four digits of the job's number, as PyTorch Lightning has it: jobs that share
/// a host differ in them.
[[nodiscard]] int slurm_port(std::string_view job_id);

}  // namespace lockstep::config
