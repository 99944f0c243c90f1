// Starts the ranks of one host, watches them, and stops all when one fails.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// One line that a rank printed.
struct OutputLine {
  int rank = 0;
  bool is_stderr = true;
  std::string text;  // without the line end
};

/// Ranks that one host may be asked for.
inline constexpr int kMostRanksOfAHost = 1024;

struct LocalJobOptions {
  std::vector<std::string> command;  // argv of every rank
  int nproc_per_node = 1;
  std::vector<std::string> extra_env;  // "KEY=value"
  int threads_per_rank = 1;            // OMP_NUM_THREADS
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0 = a free one
  std::string log_dir;  // per-rank stderr and stdout; empty = passed through
  std::chrono::milliseconds stop_budget{std::chrono::seconds(20)};  // SIGTERM to SIGKILL
  bool ours = true;  // ranks keep the exit codes of docs/cli.md; others end as 1
  /// Each line of LOCKSTEP_REPORT_FD. It and on_output run one at a time on a thread of the job;
  /// they may block: ranks do not wait for them, the oldest lines waiting are dropped. What one
  /// throws ends the job.
  std::function<void(const std::string& line)> on_report;
  std::string report_on_stop;  // handed to on_report when the first stop signal has come
  /// Each line passed through (log_dir empty); unset = written to the same stream as "[rank 1]
  /// text".
  std::function<void(const OutputLine& line)> on_output;
};

struct RankEnd {
  int rank = 0;
  int pid = 0;
  int exit_code = 0;           // when it exited
  int signal = 0;              // when it was killed
  double seconds = 0;          // since start, monotonic
  bool stopped_by_us = false;  // a signal had been sent to it before
  bool frozen = false;         // it was found stopped (state T) and killed for that
  std::string hint;            // what the machine says about a SIGKILL
  std::string last_stderr;     // its last lines
};

struct LocalJobResult {
  Exit exit = Exit::ok;  // by the rule of docs/cli.md
  std::optional<RankEnd> first_failure;
  std::vector<RankEnd> ends;  // in order of ending
  bool stopped_on_request = false;
  bool killed_on_request = false;  // by a second signal, before the ranks had saved
};

/// Serves the job's store, starts the ranks, forwards SIGTERM, SIGINT and SIGHUP once (a second one
/// kills), reads reports, and returns when all ranks have ended. Ranks die with this process.
/// \throws UsageError (nproc below 1), EnvironmentFault (port in use, program missing).
[[nodiscard]] LocalJobResult run_local_job(const LocalJobOptions& options);

/// "rank 1 was killed by SIGKILL after 3.2 s ..." with its last lines; for people.
[[nodiscard]] std::string describe(const LocalJobResult& result);

}  // namespace lockstep::launch
