#include "lockstep/starters/job_environment.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/starters/hostfile.h"
#include "lockstep/starters/slurm.h"
#include "lockstep/starters/variables.h"

namespace lockstep::starters {
namespace {

/// The larger number of PET_NNODES, "2" or "1:4"; nothing when it is unset or something else, which
/// the flag's own check then says.
std::optional<int> pet_nodes(const Variables& env) {
  const std::string text = env.text("PET_NNODES");
  std::int64_t nodes = 0;
  if (!config::read_integer(text.substr(text.find(':') + 1), nodes)) return std::nullopt;
  if (nodes < 1 || nodes > kMostNodes) return std::nullopt;
  return static_cast<int>(nodes);
}

void read_master(const Variables& env, NodeEnv& node) {
  node.master_addr = env.text("MASTER_ADDR");
  node.master_port = env.number("MASTER_PORT", 1, kLastPort);
}

/// RANK is the index of the pod, so that the process is the node's launcher; WORLD_SIZE counts the
/// pods, or their processes where nprocPerNode is a number (kubeflow/training-operator,
/// pkg/controller.v1/pytorch/envvar.go). Volcano's pytorch plugin sets the same four.
std::optional<NodeEnv> read_pytorch_job(const Variables& env) {
  // With LOCAL_RANK it is a rank of torchrun that starts a job of its own.
  if (!env.has("RANK") || !env.has("WORLD_SIZE") || env.has("LOCAL_RANK")) return std::nullopt;
  NodeEnv node;
  node.started_by = env.has("VC_TASK_INDEX") ? "Volcano" : "PyTorchJob";
  const auto world = env.number("WORLD_SIZE", 1, kMostNodes);
  node.nnodes = pet_nodes(env);
  if (!node.nnodes) node.nnodes = world;
  node.node_rank = env.number("RANK", 0, kMostNodes);
  if (node.nnodes && node.node_rank && *node.node_rank >= *node.nnodes) {
    env.refuse("RANK",
               "RANK is " + std::to_string(*node.node_rank) + ", but there are " +
                   counted(*node.nnodes, "node"),
               "without LOCAL_RANK, RANK is the number of this node, counted from 0");
  }
  read_master(env, node);
  return node;
}

/// An Indexed Job tells a pod its index and nothing else: the manifest sets PET_NNODES,
/// PET_MASTER_ADDR and PET_MASTER_PORT beside it.
std::optional<NodeEnv> read_indexed_job(const Variables& env) {
  if (!env.has("JOB_COMPLETION_INDEX")) return std::nullopt;
  NodeEnv node;
  node.started_by = "Indexed Job";
  const auto index = env.number("JOB_COMPLETION_INDEX", 0, kMostNodes);
  node.nnodes = pet_nodes(env);
  if (node.nnodes) {
    node.node_rank = index;
  } else if (index.value_or(0) > 0) {
    node.notes.push_back("JOB_COMPLETION_INDEX is " + std::to_string(*index) +
                         ", but nothing says how many pods work together: this one works alone; "
                         "PET_NNODES in the manifest says it");
  }
  read_master(env, node);
  return node;
}

std::vector<std::string> comma_list(const std::string& text) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

/// Volcano's env and svc plugins: VC_TASK_INDEX counts within a task, VC_<TASK>_HOSTS lists its
/// pods as "job-worker-0.job". Masters come before workers.
std::optional<NodeEnv> read_volcano(const Variables& env) {
  const std::string index = env.has("VC_TASK_INDEX") ? "VC_TASK_INDEX" : "VK_TASK_INDEX";
  if (!env.has(index)) return std::nullopt;
  NodeEnv node;
  node.started_by = "Volcano";
  const std::vector<std::string> masters = comma_list(env.text("VC_MASTER_HOSTS"));
  const std::vector<std::string> workers = comma_list(env.text("VC_WORKER_HOSTS"));
  std::vector<std::string> hosts = masters;
  hosts.insert(hosts.end(), workers.begin(), workers.end());
  if (hosts.empty()) return node;
  node.nnodes = static_cast<int>(hosts.size());
  node.master_addr = hosts.front();
  if (masters.empty() || workers.empty()) {
    node.node_rank = env.number(index, 0, *node.nnodes - 1);
  } else {
    const std::string own = env.text("HOSTNAME");  // the pod's name: what its host name begins with
    const auto place = std::find_if(hosts.begin(), hosts.end(), [&](const std::string& host) {
      return host.substr(0, host.find('.')) == own;
    });
    if (place == hosts.end()) {
      env.refuse("HOSTNAME", "this pod is in neither VC_MASTER_HOSTS nor VC_WORKER_HOSTS",
                 "set PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR");
    } else {
      node.node_rank = static_cast<int>(place - hosts.begin());
    }
  }
  node.master_port = env.number("MASTER_PORT", 1, kLastPort);
  return node;
}

/// One launcher a host by mpirun (`mpirun --map-by ppr:1:node lockstep launch ...`).
std::optional<NodeEnv> read_mpirun(const Variables& env) {
  if (!env.has("OMPI_COMM_WORLD_RANK") || !env.has("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  NodeEnv node;
  node.started_by = "mpirun";
  node.nnodes = env.number("OMPI_COMM_WORLD_SIZE", 1, kMostNodes);
  node.node_rank = env.number("OMPI_COMM_WORLD_RANK", 0, kMostNodes);
  node.launchers_here = env.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostNodes).value_or(1);
  if (node.launchers_here > 1) {
    node.crowded =
        Problem{"LS-1044", "OMPI_COMM_WORLD_LOCAL_SIZE",
                "mpirun starts " + counted(node.launchers_here, "launcher") +
                    " on this host, and each would start all ranks of the host",
                "start one a host: mpirun --map-by ppr:1:node ...; or leave the launcher "
                "out, mpirun then starts the ranks"};
  }
  read_master(env, node);
  return node;
}

/// The first that says something; a pod's words are nearer to the process than those of a scheduler
/// around it.
NodeEnv read_node(const config::GetEnv& get_env, const Variables& env,
                  std::vector<Problem>& problems) {
  if (auto node = read_pytorch_job(env)) return *std::move(node);
  if (auto node = read_indexed_job(env)) return *std::move(node);
  if (auto node = read_volcano(env)) return *std::move(node);
  if (auto node = read_mpirun(env)) return *std::move(node);
  if (auto node = read_slurm_node(get_env, problems)) return *std::move(node);
  return {};
}

/// A name that ends up in an address: whoever wrote it must not be able to name anything else.
void check_master(const Variables& env, const NodeEnv& node) {
  if (node.master_addr.empty() || is_host_name(node.master_addr)) return;
  env.refuse("MASTER_ADDR", "the address of the first node is no host",
             "set MASTER_ADDR to its name or address");
}

}  // namespace

NodeEnv read_node_environment(const config::GetEnv& get_env, std::vector<Problem>& problems) {
  const Variables env(get_env, problems);
  NodeEnv node = read_node(get_env, env, problems);
  check_master(env, node);
  return node;
}

JobEnvironment read_job_environment(const config::GetEnv& get_env, const std::string& as) {
  JobEnvironment job;
  config::Starter starter = config::read_starter(get_env, as);
  job.problems = std::move(starter.problems);
  if (starter.role == config::Role::rank) {
    job.part = Part::rank;
    job.rank = std::move(starter.env);
    return job;
  }
  if (!job.problems.empty()) return job;
  const Variables env(get_env, job.problems);
  job.node = read_node_environment(get_env, job.problems);
  const int nodes = pet_nodes(env).value_or(job.node.nnodes.value_or(1));
  if (nodes > 1) job.part = Part::node;
  return job;
}

std::map<std::string, std::string> pet_variables(const NodeEnv& node) {
  std::map<std::string, std::string> variables;
  if (node.nnodes.value_or(1) < 2) return variables;
  variables["PET_NNODES"] = std::to_string(*node.nnodes);
  if (node.node_rank) variables["PET_NODE_RANK"] = std::to_string(*node.node_rank);
  if (!node.master_addr.empty()) variables["PET_MASTER_ADDR"] = node.master_addr;
  if (node.master_port) variables["PET_MASTER_PORT"] = std::to_string(*node.master_port);
  if (!node.run_id.empty()) variables["PET_RDZV_ID"] = node.run_id;
  return variables;
}

config::GetEnv with_defaults(config::GetEnv get_env, std::map<std::string, std::string> defaults) {
  return [get_env = std::move(get_env), defaults = std::move(defaults)](const char* name) {
    const char* value = get_env ? get_env(name) : nullptr;
    if (value != nullptr && *value != '\0') return value;
    const auto found = defaults.find(name);
    return found == defaults.end() ? value : found->second.c_str();
  };
}

}  // namespace lockstep::starters
