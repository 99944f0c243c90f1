// The command lines and variables by which a launcher is started on another host over ssh. Pure
// functions.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::starters {

/// What ssh(1) is told; what is not set here is as ~/.ssh/config says.
struct SshOptions {
  std::string ssh = "ssh";       // the program: a path, or found by PATH
  int port = 0;                  // -p; 0 = as ~/.ssh/config says
  std::string identity = {};     // -i: a file with a private key
  std::string config_file = {};  // -F: in place of ~/.ssh/config
  int connect_timeout_s = 10;
  std::string remote_program = {};  // lockstep on the other hosts; empty = where it is on this one
};

/// ssh HOST 'exec PROGRAM --remote-agent': what is to be run there, its variables and the job's
/// secret go through standard input (agent_order.h), so that no shell reads them and no process
/// list shows them. Never asks for a password, and ends when the other host does not answer any
/// more. \param host a name that is_host_name() accepts. \param program path of lockstep over
/// there.
[[nodiscard]] std::vector<std::string> ssh_argv(const SshOptions& options, const std::string& host,
                                                const std::string& program);

/// Those of `environment` ("KEY=value") that ranks of every host should see: the variables of
/// Python, NCCL, Gloo, UCX, MVAPICH, MLflow, OpenMP, torch and lockstep, by the beginnings of their
/// names (DeepSpeed's launcher passes PYTHON, NCCL, UCX, MV2 and MLFLOW on). Not those that speak
/// of this machine or process alone, such as LOCKSTEP_ADDRESS.
[[nodiscard]] std::vector<std::string> passed_on(const std::vector<std::string>& environment);

struct VariableLines {
  std::vector<std::string> variables;  // "KEY=value"
  std::vector<Problem> problems;
};

/// A .deepspeed_env file: a line "KEY=value" for each further variable to pass on; blank lines and
/// those that begin with '#' are skipped. \param file named in problems.
[[nodiscard]] VariableLines parse_variable_lines(std::string_view text, const std::string& file);

}  // namespace lockstep::starters
