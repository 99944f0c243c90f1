#include "lockstep/config/starter.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/sha256.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/slurm_text.h"

namespace lockstep::config {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr int kLastPort = 65535;
constexpr std::size_t kLongestHostId = 64;

/// Reads variables and notes what is wrong with them. An empty variable counts as unset.
class Environment {
 public:
  Environment(const GetEnv& get_env, std::vector<Problem>& problems)
      : get_env_(get_env), problems_(problems) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = get_env_ ? get_env_(name) : nullptr;
    return value == nullptr ? "" : value;
  }

  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }

  /// The number of `name`, if it is set to one between the bounds; otherwise a problem.
  [[nodiscard]] std::optional<int> number(const char* name, std::int64_t minimum,
                                          std::int64_t maximum) {
    const std::string value = text(name);
    std::int64_t number = 0;
    if (value.empty()) {
      refuse(name, std::string(name) + " is not set", "set it, or unset the variables beside it");
      return std::nullopt;
    }
    if (!read_integer(value, number) || number < minimum || number > maximum) {
      refuse(name, std::string(name) + " is \"" + printable(value) + "\"",
             "it is a whole number from " + std::to_string(minimum) + " to " +
                 std::to_string(maximum));
      return std::nullopt;
    }
    return static_cast<int>(number);
  }

  [[nodiscard]] std::optional<int> number_if_set(const char* name, std::int64_t minimum,
                                                 std::int64_t maximum) {
    return has(name) ? number(name, minimum, maximum) : std::nullopt;
  }

  void refuse(const std::string& where, std::string what, std::string fix,
              const char* code = "LS-1015") {
    problems_.push_back({code, where, std::move(what), std::move(fix)});
  }

 private:
  static std::string printable(const std::string& value) {
    std::string shown = value.substr(0, 64);
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return shown;
  }

  const GetEnv& get_env_;
  std::vector<Problem>& problems_;
};

/// Names of one starter's variables.
struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Names kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kHorovod{"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
                         "HOROVOD_LOCAL_SIZE"};

void check_places(Environment& env, const Names& names, const RankEnv& rank) {
  if (rank.rank >= rank.world_size) {
    env.refuse(names.rank,
               std::string(names.rank) + " is " + std::to_string(rank.rank) + ", but " +
                   names.world_size + " is " + std::to_string(rank.world_size),
               "ranks count from 0: the last is one less than the size");
  }
  if (rank.local_rank >= rank.local_world_size || rank.local_world_size > rank.world_size) {
    env.refuse(names.local_rank,
               std::string(names.local_rank) + " " + std::to_string(rank.local_rank) +
                   ", local size " + std::to_string(rank.local_world_size) + " and " +
                   names.world_size + " " + std::to_string(rank.world_size) +
                   " contradict each other",
               "local rank < local size <= size must hold");
  }
}

/// Fills the four numbers; without a local size all ranks count as local.
void read_places(Environment& env, const Names& names, RankEnv& rank) {
  const auto place = env.number(names.rank, 0, kMostRanks);
  const auto size = env.number(names.world_size, 1, kMostRanks);
  if (!place || !size) return;
  rank.rank = *place;
  rank.world_size = *size;
  const bool local_set = env.has(names.local_rank);
  rank.local_rank = local_set ? env.number(names.local_rank, 0, kMostRanks).value_or(0) : *place;
  const auto local_size = env.number_if_set(names.local_world_size, 1, kMostRanks);
  if (env.has(names.local_world_size) && !local_size) return;
  rank.local_world_size = local_size.value_or(*size);
  check_places(env, names, rank);
}

/// MASTER_ADDR and MASTER_PORT as they stand.
void read_master(Environment& env, RankEnv& rank, int default_port) {
  rank.store_host = env.text("MASTER_ADDR");
  if (rank.store_host.rfind("unix:", 0) == 0) {
    rank.store_port = 0;
    return;
  }
  const auto port = env.number_if_set("MASTER_PORT", 1, kLastPort);
  if (env.has("MASTER_PORT") && !port) return;
  if (!port && default_port == 0) {
    env.refuse("MASTER_PORT", "MASTER_ADDR is set, but MASTER_PORT is not", "set MASTER_PORT");
    return;
  }
  rank.store_port = port.value_or(default_port);
}

/// A socket of this user that all ranks of the job on this host name alike.
std::string local_socket(const Environment& env, const std::string& job) {
  const std::string runtime = env.text("XDG_RUNTIME_DIR");
  const std::string folder =
      runtime.empty() || runtime.front() != '/' || runtime.size() > 60 ? "/tmp" : runtime;
  return "unix:" + folder + "/lockstep-" + std::to_string(getuid()) + "-" +
         sha256_hex(job).substr(0, 16) + ".sock";
}

bool is_rank_of_torchrun(const Environment& env) {
  return env.has("RANK") && env.has("WORLD_SIZE") && env.has("LOCAL_RANK");
}

void read_torchrun(Environment& env, RankEnv& rank) {
  rank.started_by = env.has("LOCKSTEP_REPORT_FD") ? "lockstep" : "torchrun";
  read_places(env, kTorchrun, rank);
  rank.store_hosted = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (env.has("MASTER_ADDR")) {
    read_master(env, rank, 0);
  } else if (rank.world_size == 1 && !rank.store_hosted) {
    rank.store_host = "127.0.0.1";
  } else {
    env.refuse("MASTER_ADDR", "RANK, WORLD_SIZE and LOCAL_RANK are set, but MASTER_ADDR is not",
               "set MASTER_ADDR and MASTER_PORT, or unset RANK, WORLD_SIZE and LOCAL_RANK");
  }
}

/// The name of a job of mpirun or horovodrun, equal on all its ranks of a host.
std::string mpi_job(const Environment& env) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_PORT",
                           "HOROVOD_GLOO_RENDEZVOUS_PORT"}) {
    if (env.has(name)) return std::string(name) + env.text(name);
  }
  return "parent" + std::to_string(getppid());
}

/// \param by "mpirun" or "horovodrun": neither tells where the first rank is.
void read_mpi(Environment& env, const Names& names, const std::string& by, RankEnv& rank) {
  rank.started_by = by;
  read_places(env, names, rank);
  if (env.has("MASTER_ADDR")) {
    read_master(env, rank, 29500);
  } else if (env.has(names.local_world_size) && rank.local_world_size < rank.world_size) {
    env.refuse("MASTER_ADDR",
               std::to_string(rank.world_size) +
                   " ranks on several hosts, and MASTER_ADDR is not "
                   "set",
               by == "mpirun"
                   ? "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500 ..., HOST being the first rank's"
                   : "MASTER_ADDR=HOST MASTER_PORT=29500 horovodrun ..., HOST being the first rank's",
               "LS-1016");
  } else {
    rank.store_host = local_socket(env, mpi_job(env));
  }
}

/// A step of srun with tasks of ours: not the batch script, not an interactive shell.
bool is_slurm_task(const Environment& env) {
  const std::string step = env.text("SLURM_STEP_ID");
  const bool special = step == "batch" || step == "interactive" || step == "extern" ||
                       step == "4294967291" || step == "4294967290" || step == "4294967292";
  const std::string tasks = env.text("SLURM_STEP_NUM_TASKS");
  const std::string count = tasks.empty() ? env.text("SLURM_NTASKS") : tasks;
  return !step.empty() && !special && !count.empty() && count != "1";
}

/// SLURM_STEP_* speak of this step, SLURM_* of the whole job: prefer the first.
const char* first_set(const Environment& env, const char* step, const char* job) {
  return env.has(step) ? step : job;
}

void read_slurm_store(Environment& env, RankEnv& rank, bool one_host) {
  const std::string job = env.text("SLURM_JOB_ID");
  if (env.has("MASTER_ADDR")) {
    read_master(env, rank, 29500);
    return;
  }
  if (one_host) {
    rank.store_host = local_socket(env, "slurm" + job + "." + env.text("SLURM_STEP_ID"));
    return;
  }
  const char* list = first_set(env, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  rank.store_host = first_slurm_host(env.text(list));
  if (rank.store_host.empty()) {
    env.refuse(list, std::string(list) + " is not a node list", "set MASTER_ADDR and MASTER_PORT");
  }
  const auto port = env.number_if_set("MASTER_PORT", 1, kLastPort);
  rank.store_port = port.value_or(slurm_port(job));
}

void read_slurm(Environment& env, RankEnv& rank) {
  rank.started_by = "srun";
  const Names names{"SLURM_PROCID", first_set(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
                    "SLURM_LOCALID", ""};
  const auto place = env.number(names.rank, 0, kMostRanks);
  const auto size = env.number(names.world_size, 1, kMostRanks);
  const auto local = env.number(names.local_rank, 0, kMostRanks);
  const auto node = env.number("SLURM_NODEID", 0, kMostRanks);
  const char* tasks = first_set(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  if (!place || !size || !local || !node) return;
  const auto local_size = slurm_tasks_on_node(env.text(tasks), *node);
  if (!local_size) {
    env.refuse(tasks,
               std::string(tasks) + " does not name the tasks of node " + std::to_string(*node),
               "it looks like 4(x3),2");
    return;
  }
  rank.rank = *place;
  rank.world_size = *size;
  rank.local_rank = *local;
  rank.local_world_size = *local_size;
  check_places(env, names, rank);
  read_slurm_store(env, rank, *local_size == *size);
}

/// srun --mpi=pmi2 sets PMI_RANK too, without the local variables of an mpirun.
bool pmi_is_slurms(const Environment& env) {
  return !env.has(kPmi.local_rank) && is_slurm_task(env) &&
         env.text("SLURM_PROCID") == env.text(kPmi.rank);
}

bool is_numeric_address(const std::string& text) {
  in6_addr bytes{};
  return ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

/// Where this rank runs, when the machine does not say it right.
void read_place(Environment& env, RankEnv& rank) {
  rank.host_id = env.text("LOCKSTEP_HOST_ID");
  const bool plain = std::all_of(rank.host_id.begin(), rank.host_id.end(),
                                 [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || rank.host_id.size() > kLongestHostId) {
    env.refuse("LOCKSTEP_HOST_ID", "LOCKSTEP_HOST_ID is no name of a host",
               "at most " + std::to_string(kLongestHostId) + " visible characters, no spaces");
  }
  rank.address = env.text("LOCKSTEP_ADDRESS");
  if (rank.address.empty() || is_numeric_address(rank.address)) return;
  env.refuse("LOCKSTEP_ADDRESS", "LOCKSTEP_ADDRESS is \"" + rank.address.substr(0, 64) + "\"",
             "it is a numeric address of this machine, such as 10.0.0.7 (`ip address` lists them)");
}

void read_own_variables(Environment& env, RankEnv& rank) {
  const auto fd = env.number_if_set("LOCKSTEP_REPORT_FD", 0, 1 << 20);
  if (fd) rank.report_fd = *fd;
  read_place(env, rank);
  rank.backend = env.has("LOCKSTEP_BACKEND") ? env.text("LOCKSTEP_BACKEND") : "auto";
  for (const auto* known : {"auto", "shm", "gloo", "nccl", "fake"}) {
    if (rank.backend == known) return;
  }
  env.refuse("LOCKSTEP_BACKEND", "LOCKSTEP_BACKEND is \"" + rank.backend.substr(0, 64) + "\"",
             "it is auto (shared memory inside a host, Gloo between hosts), shm, gloo, nccl for "
             "GPUs, or fake (nothing is exchanged: to time a step without it)");
}

/// What is there of RANK, WORLD_SIZE and LOCAL_RANK is not enough for a rank nor an agent.
void check_half_set(Environment& env) {
  const bool rank = env.has("RANK");
  const bool size = env.has("WORLD_SIZE");
  if (rank == size && (rank || !env.has("LOCAL_RANK"))) return;
  std::string set;
  std::string missing;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    std::string& list = env.has(name) ? set : missing;
    list += (list.empty() ? "" : " and ") + std::string(name);
  }
  env.refuse(set, set + " set, but not " + missing,
             "set all of RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (a rank), or "
             "unset " +
                 set);
}

/// Whoever started this process as a rank fills `rank`; false when nobody did.
bool read_rank(Environment& env, RankEnv& rank) {
  if (is_rank_of_torchrun(env)) {
    read_torchrun(env, rank);
  } else if (env.has(kOpenMpi.rank)) {
    read_mpi(env, kOpenMpi, "mpirun", rank);
  } else if (env.has(kPmi.rank) && !pmi_is_slurms(env)) {
    read_mpi(env, kPmi, "mpirun", rank);
  } else if (env.has(kHorovod.rank)) {
    read_mpi(env, kHorovod, "horovodrun", rank);
  } else if (is_slurm_task(env)) {
    read_slurm(env, rank);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Starter read_starter(const GetEnv& get_env, const std::string& as) {
  Starter starter;
  Environment env(get_env, starter.problems);
  if (!as.empty() && as != "rank" && as != "agent") {
    env.refuse("--as", "--as cannot be " + as.substr(0, 64), "use rank or agent", "LS-1013");
    return starter;
  }
  if (as != "agent" && read_rank(env, starter.env)) {
    starter.role = Role::rank;
    read_own_variables(env, starter.env);
    return starter;
  }
  if (as == "rank") {
    starter.role = Role::rank;
    starter.env.started_by = "alone";
    // A pod's agent has these two; a rank with them is one of several and must not work alone.
    if (env.has("RANK") && env.has("WORLD_SIZE")) {
      env.refuse("LOCAL_RANK", "RANK and WORLD_SIZE are set, but LOCAL_RANK is not",
                 "set LOCAL_RANK to the number of this rank among those of its host, or unset RANK "
                 "and WORLD_SIZE");
    }
    starter.env.store_host = "127.0.0.1";
    read_own_variables(env, starter.env);
  }
  check_half_set(env);
  const bool pod = env.has("RANK") && env.has("WORLD_SIZE");
  if (as == "agent" || (pod && as.empty())) {
    starter.role = Role::agent;
    (void)env.number_if_set("RANK", 0, kMostRanks);
    (void)env.number_if_set("WORLD_SIZE", 1, kMostRanks);
  }
  return starter;
}

Starter read_own_starter(const std::string& as) {
  return read_starter([](const char* name) { return std::getenv(name); }, as);
}

std::string read_own_error_file() {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  return path == nullptr ? "" : path;
}

}  // namespace lockstep::config
