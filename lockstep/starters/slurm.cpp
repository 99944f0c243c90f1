#include "lockstep/starters/slurm.h"

#include <algorithm>
#include <string>

#include "lockstep/base/units.h"
#include "lockstep/config/slurm_text.h"
#include "lockstep/starters/variables.h"

namespace lockstep::starters {
namespace {

/// The batch script, a shell of salloc, and the step that keeps a node's processes together are no
/// tasks of srun; older versions number them.
bool is_step_of_srun(const std::string& step) {
  for (const char* other :
       {"", "batch", "interactive", "extern", "4294967291", "4294967290", "4294967292"}) {
    if (step == other) return false;
  }
  return true;
}

/// Of this step where Slurm tells it, else of the whole job.
std::string first_set(const Variables& env, const char* step, const char* job) {
  return env.has(step) ? step : job;
}

Problem too_many(int launchers, const std::string& node) {
  return {"LS-1044", "SLURM_TASKS_PER_NODE",
          "Slurm starts " + counted(launchers, "launcher") + " on " + node +
              ", and each would start all ranks of the node",
          "start one: srun --ntasks-per-node=1 (and #SBATCH --ntasks-per-node=1); or leave the "
          "launcher out, srun then starts the ranks: srun lockstep train RUN.toml"};
}

}  // namespace

std::optional<NodeEnv> read_slurm_node(const config::GetEnv& get_env,
                                       std::vector<Problem>& problems) {
  const Variables env(get_env, problems);
  const std::string job = env.text("SLURM_JOB_ID");
  if (job.empty()) return std::nullopt;
  NodeEnv node;
  node.started_by = "Slurm";
  node.run_id = job;
  node.restarts = env.number("SLURM_RESTART_COUNT", 0, kMostNodes).value_or(0);
  const std::string list = first_set(env, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  const auto hosts = config::slurm_hosts(env.text(list));
  if (env.has(list) && !hosts) {
    env.refuse(list, list + " is not a node list", "unset SLURM_JOB_ID to run outside the job");
    return node;
  }
  const auto nodes = hosts ? static_cast<int>(hosts->size()) : 1;
  if (!is_step_of_srun(env.text("SLURM_STEP_ID"))) {
    if (nodes > 1) {
      node.notes.push_back("the job has " + counted(nodes, "node") +
                           ", but srun did not start this process: it runs on this node alone; "
                           "`srun --ntasks-per-node=1 ...` starts one on each");
    }
    return node;
  }
  node.nnodes = nodes;
  node.node_rank = env.number("SLURM_NODEID", 0, nodes - 1);
  const std::string tasks = first_set(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  node.launchers_here =
      config::slurm_tasks_on_node(env.text(tasks), node.node_rank.value_or(0)).value_or(1);
  if (hosts) node.master_addr = hosts->front();
  node.master_port = env.number("MASTER_PORT", 1, kLastPort).value_or(config::slurm_port(job));
  if (env.has("MASTER_ADDR")) node.master_addr = env.text("MASTER_ADDR");
  if (node.launchers_here > 1) {
    const auto here = static_cast<std::size_t>(node.node_rank.value_or(0));
    node.crowded = too_many(node.launchers_here, hosts ? hosts->at(here) : "this node");
  }
  return node;
}

}  // namespace lockstep::starters
