// What `lockstep launch` was asked for: the flags and PET_* variables of torchrun 2.11
// (torch/distributed/run.py) and those of ours, as values.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/launch/launch_values.h"

namespace lockstep::launch {

/// As the command line and the environment gave it, before anything is checked.
struct LaunchWords {
  /// By flag, the last one given: {"--nnodes", "2"}. A switch has the value "1".
  std::map<std::string, std::string, std::less<>> flags;
  std::vector<std::string> program;  // SCRIPT or PROGRAM, then its arguments
  std::function<const char*(const char*)> get_env;
};

/// Asked only where a word of --nproc-per-node needs it.
struct DeviceCounts {
  std::function<int()> cores;
  std::function<int()> gpus;
  std::function<int()> xpus;
};

enum class RdzvBackend : std::uint8_t { fixed, c10d, etcd };  // fixed: torchrun's "static"
/// How the old torch.distributed.launch told a script its local rank.
enum class RankFlag : std::uint8_t { none, dash, underscore };
/// Which cores a rank may use: torchrun's --numa-binding, or a share of all (--bind-cores).
enum class CoreBinding : std::uint8_t { none, node, socket, exclusive, core_complex, cores };

struct LaunchOptions {
  NodeRange nnodes;
  int nproc_per_node = 1;
  std::optional<int> node_rank;  // unset = any

  RdzvBackend rdzv_backend = RdzvBackend::fixed;
  std::optional<Endpoint> rdzv_endpoint;
  std::vector<Endpoint> more_endpoints;  // of the same etcd
  std::string rdzv_id = "none";
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;
  std::string master_addr = "127.0.0.1";
  std::optional<int> master_port;
  std::string local_addr;  // empty = found out
  std::string hostfile;
  std::string hosts;
  std::string job_secret;            // a file, or "fd:N"; empty = the default file
  std::string default_secret;        // the default file
  bool is_pod = false;               // of Kubernetes
  bool workers_identical = false;    // TORCH_ELASTIC_WORKER_IDENTICAL, with static
  std::set<std::string> may_differ;  // of what must be equal on all hosts

  int max_restarts = 0;
  std::string role = "default";
  std::vector<int> stop_signals;  // handled and handed on

  std::vector<std::string> program;  // SCRIPT or PROGRAM, then its arguments
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  RankFlag pass_local_rank = RankFlag::none;

  std::string log_dir;  // empty = none was named
  StreamChoice redirects;
  StreamChoice tee;
  std::set<int> local_ranks_filter;  // empty = all
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  std::string line_prefix = "[${role_name}${local_rank}]:";

  CoreBinding binding = CoreBinding::none;
  bool virtual_local_rank = false;

  /// Of several hosts; more may join than must.
  [[nodiscard]] bool spans_hosts() const { return nnodes.most > 1; }
};

struct ReadLaunch {
  LaunchOptions options;
  std::vector<Problem> problems;   // all of them
  std::vector<std::string> notes;  // what was given and means nothing here
};

/// The command line beats the environment, which beats the default.
[[nodiscard]] ReadLaunch read_launch_options(const LaunchWords& words, const DeviceCounts& counts);

/// "--nproc-per-node" as PET_NPROC_PER_NODE.
[[nodiscard]] std::string pet_name(std::string_view flag);

}  // namespace lockstep::launch
