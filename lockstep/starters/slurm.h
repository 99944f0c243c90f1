// A job of Slurm as the launcher of one of its nodes sees it.
#pragma once
#include <optional>
#include <vector>

#include "lockstep/starters/job_environment.h"

namespace lockstep::starters {

/// The node's place by SLURM_*; nothing outside a job. The rules are PyTorch Lightning's: node 0 is
/// the first of the node list, and its port 15000 plus the last four digits of the job's number. In
/// a batch script or an interactive shell, where srun started nothing, the process counts as alone:
/// a note says so when the job has further nodes.
[[nodiscard]] std::optional<NodeEnv> read_slurm_node(const config::GetEnv& get_env,
                                                     std::vector<Problem>& problems);

}  // namespace lockstep::starters
