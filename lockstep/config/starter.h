// Who started this process, and as which rank: read once from the environment of torchrun, lockstep
// launch, srun, mpirun, horovodrun or a pod. What a launcher of a node reads is in
// starters/job_environment.h; nothing else reads those variables.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::config {

/// A rank's place in the job and where the job's store is.
struct RankEnv {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string store_host;     // "127.0.0.1", or "unix:<path>"
  int store_port = 0;         // 0 with unix:
  bool store_hosted = false;  // a launcher serves the store (TORCHELASTIC_USE_AGENT_STORE=True)
  std::string started_by;     // "lockstep", "torchrun", "srun", "mpirun", "horovodrun", "alone"
  int report_fd = -1;         // LOCKSTEP_REPORT_FD, or -1
  std::string backend;        // LOCKSTEP_BACKEND: "auto", "shm", "gloo", "nccl" or "fake"
  std::string host_id;        // LOCKSTEP_HOST_ID: ranks with one share a host; empty = found out
  std::string address;        // LOCKSTEP_ADDRESS: of this machine, numeric; empty = by route
};

/// What `lockstep train` must be in this environment.
enum class Role { front, agent, rank };

struct Starter {
  Role role = Role::front;
  RankEnv env;                    // filled when role == rank
  std::vector<Problem> problems;  // half-set or contradictory variables
};

using GetEnv = std::function<const char*(const char*)>;

/// Applies the rules of docs/cli.md ("It is a rank when ..."). \param as "", "rank" or "agent"
/// (--as).
[[nodiscard]] Starter read_starter(const GetEnv& get_env, const std::string& as = "");

/// The same from this process's own environment.
[[nodiscard]] Starter read_own_starter(const std::string& as = "");

/// Where whoever started this process wants to read why it fails (TORCHELASTIC_ERROR_FILE); empty =
/// nowhere.
[[nodiscard]] std::string read_own_error_file();

}  // namespace lockstep::config
