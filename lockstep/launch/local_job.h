// Starts the ranks of one host, watches them, and stops all when one fails.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

struct LocalJobOptions {
  std::vector<std::string> command;     // argv of every rank
  int nproc_per_node = 1;
  std::vector<std::string> extra_env;   // "KEY=value"
  int threads_per_rank = 1;             // OMP_NUM_THREADS
  std::string master_addr = "127.0.0.1";
  int master_port = 0;                  // 0 = a free one
  std::string log_dir;                  // per-rank stderr and stdout; empty = passed through
  std::chrono::milliseconds stop_budget{std::chrono::seconds(20)};  // SIGTERM to SIGKILL
  std::function<void(const std::string& line)> on_report;  // each line of LOCKSTEP_REPORT_FD
};

struct RankEnd {
  int rank = 0;
  int pid = 0;
  int exit_code = 0;   // when it exited
  int signal = 0;      // when it was killed
  double seconds = 0;  // since start, monotonic
  std::string last_stderr;  // its last lines
};

struct LocalJobResult {
  Exit exit = Exit::ok;                   // by the rule of docs/cli.md
  std::optional<RankEnd> first_failure;
  std::vector<RankEnd> ends;              // in order of ending
  bool stopped_on_request = false;
};

/// Serves the job's store, starts the ranks, forwards SIGTERM and SIGINT once (a second one kills),
/// reads reports, and returns when all ranks have ended. Ranks die with this process.
/// \throws UsageError (nproc below 1), EnvironmentFault (port in use, program missing).
[[nodiscard]] LocalJobResult run_local_job(const LocalJobOptions& options);

/// "rank 1 was killed by SIGKILL after 3.2 s ..." with its last lines; for people.
[[nodiscard]] std::string describe(const LocalJobResult& result);

}  // namespace lockstep::launch
