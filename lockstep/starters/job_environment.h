// What whoever started this process says about the job: Slurm, mpirun, a pod of Kubernetes. Ranks
// are told who they are by config/starter.h; here is what the launcher of a node finds. Flags stand
// above PET_* variables, and those above what is read here.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/starter.h"

namespace lockstep::starters {

/// The place of this node in its job. What the environment does not say is unset.
struct NodeEnv {
  std::string
      started_by;  // "Slurm", "PyTorchJob", "Indexed Job", "Volcano", "mpirun"; empty = nobody
  std::optional<int> nnodes;
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<int> master_port;
  std::string run_id;      // the job's number or name where that is known: equal on all nodes
  int restarts = 0;        // of the whole job by its scheduler (SLURM_RESTART_COUNT)
  int launchers_here = 1;  // that the starter starts on this node

  /// Several launchers share this node, and each would start all its ranks. An error where the job
  /// spans nodes; on one node they may be meant to work each alone.
  std::optional<Problem> crowded;
  std::vector<std::string> notes;
};

/// What this process is to be.
enum class Part {
  single,  // nobody said anything: a job of this host
  node,    // the launcher of one node of several
  rank,
};

struct JobEnvironment {
  Part part = Part::single;
  config::RankEnv rank;  // filled when part == rank
  NodeEnv node;          // otherwise
  std::vector<Problem> problems;
};

/// The place of this node, for a process that is a launcher whatever else stands there. What cannot
/// be read is added to `problems`.
[[nodiscard]] NodeEnv read_node_environment(const config::GetEnv& get_env,
                                            std::vector<Problem>& problems);

/// \param as "", "rank" or "agent" (--as; `lockstep launch` is always an agent).
[[nodiscard]] JobEnvironment read_job_environment(const config::GetEnv& get_env,
                                                  const std::string& as = "");

/// The torchrun variables (PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT,
/// PET_RDZV_ID) that say the same as `node`; none when it names no other node.
[[nodiscard]] std::map<std::string, std::string> pet_variables(const NodeEnv& node);

/// `get_env` with those of `defaults` where it has none.
[[nodiscard]] config::GetEnv with_defaults(config::GetEnv get_env,
                                           std::map<std::string, std::string> defaults);

}  // namespace lockstep::starters
