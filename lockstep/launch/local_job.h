// Starts the ranks of one host, watches them, and stops all when one fails.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"

namespace lockstep::launch {

class LostOutput;
class StopSignals;

/// One line that a rank printed.
struct OutputLine {
  int rank = 0;
  bool is_stderr = true;
  std::string text;     // without the line end
  bool is_raw = false;  // `text` is several lines with their ends, as they came
  int local_rank = 0;
};

/// Ranks that one host may be asked for.
inline constexpr int kMostRanksOfAHost = 1024;

/// Where the ranks of this host stand in their job. The defaults are those of a job of one host.
struct JobPlace {
  int base_rank = 0;   // the first rank of this host
  int world_size = 0;  // 0 = the ranks of this host
  int group_rank = 0;
  int group_world_size = 1;
  int base_role_rank = 0;
  int role_world_size = 0;  // 0 = the ranks of this host
  std::string role = "default";
  std::string run_id;  // empty = one that no other job has
  int restart_count = 0;
  int max_restarts = 0;
};

/// What becomes of one stream of a rank.
struct StreamLog {
  enum class Shown : std::uint8_t {
    no,
    lines,  // handed over one by one
    raw,    // as they came, whole lines at a time
  };
  std::string file;  // empty = none
  Shown shown = Shown::lines;
};

struct RankLogs {
  StreamLog out;
  StreamLog err;
  std::string error_file;  // where a rank may say why it fails; empty = nowhere
};

struct LocalJobOptions {
  std::vector<std::string> command;  // argv of every rank
  int nproc_per_node = 1;
  JobPlace place;
  std::vector<std::string> extra_env;  // "KEY=value"
  /// What only one rank is told, by local rank: arguments in place of `command`, variables, cores
  /// it may use. Empty = nothing of that kind.
  std::vector<std::vector<std::string>> commands;
  std::vector<std::vector<std::string>> rank_env;
  std::vector<std::vector<int>> cpus;
  int threads_per_rank = 1;  // OMP_NUM_THREADS; 0 = as it is
  std::string master_addr = "127.0.0.1";
  int master_port = 0;         // 0 = a free one
  std::string log_dir;         // per-rank stderr and stdout; empty = passed through
  std::vector<RankLogs> logs;  // by local rank, in place of log_dir
  std::chrono::milliseconds stop_budget{std::chrono::seconds(20)};  // SIGTERM to SIGKILL
  bool inherits_input = false;   // of one rank: standard input is this process's, else empty
  bool ours = true;              // ranks keep the exit codes of docs/cli.md; others end as 1
  std::uint64_t open_files = 0;  // soft limit of a rank (RLIMIT_NOFILE); 0 = as this process
  /// Takes what ranks print and cannot be written, of several rounds; unset = one for this round.
  LostOutput* lost = nullptr;
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
  int local_rank = 0;
  int pid = 0;
  int exit_code = 0;            // when it exited
  int signal = 0;               // when it was killed
  double seconds = 0;           // since start, monotonic
  bool stopped_by_us = false;   // a signal had been sent to it before
  bool frozen = false;          // it was found stopped (state T) and killed for that
  std::string hint;             // what the machine says about a SIGKILL
  std::string last_stderr;      // its last lines
  std::string long_stderr;      // more of them, of a rank that failed
  std::string error_file;       // where it may have said why
  std::int64_t ended_at_s = 0;  // since 1970
};

struct LocalJobResult {
  Exit exit = Exit::ok;  // by the rule of docs/cli.md
  std::optional<RankEnd> first_failure;
  std::vector<RankEnd> ends;  // in order of ending
  bool stopped_on_request = false;
  bool killed_on_request = false;  // by a second signal, before the ranks had saved
  bool interrupted = false;        // the round was over (RoundWatch)
  std::vector<Problem> lost;       // of what ranks printed: told already (lost_output.h)
};

/// What else than its ranks may end a round, and who wants to know at once. All may be unset.
struct RoundWatch {
  int interrupt_fd = -1;               // readable = the ranks are to stop; -1 = nothing does
  std::function<bool()> is_fenced;     // then they go at once
  std::function<bool()> may_save;      // else they get a moment, not their whole time
  std::function<Deadline()> fence_at;  // when they must be dead unless this has moved on
  std::function<void()> on_stop;       // this process was asked to stop; the ranks have been told
  std::function<void(const RankEnd&)> on_failure;  // for which the others are being stopped
  /// A signal that is the ranks' own affair was handed to `told` of them; the others would end of
  /// it.
  std::function<void(int signal, std::size_t told, std::size_t others)> on_passed_on;
};

/// Serves the job's store, starts the ranks, forwards SIGTERM, SIGINT and SIGHUP once (a second one
/// kills), hands SIGUSR1 and SIGUSR2 to ranks that await them (to ranks of ours SIGUSR1 is a wish
/// to stop), reads reports, and returns when all ranks have ended. Ranks die with this process.
/// \throws UsageError (nproc below 1), EnvironmentFault (port in use, program missing).
[[nodiscard]] LocalJobResult run_local_job(const LocalJobOptions& options);

/// The same for one round of a job whose store somebody else serves at options.master_addr and
/// master_port. \param signals read here while the ranks run.
[[nodiscard]] LocalJobResult run_round(const LocalJobOptions& options, StopSignals& signals,
                                       const RoundWatch& watch);

/// What every rank would be started with: run_round's plan, without doing it.
struct RankStart {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // all of it, "KEY=value"
  std::vector<int> cpus;                 // empty = all
};
[[nodiscard]] std::vector<RankStart> plan_ranks(const LocalJobOptions& options);

/// "rank 1 was killed by SIGKILL after 3.2 s ..." with its last lines; for people.
[[nodiscard]] std::string describe(const LocalJobResult& result);

}  // namespace lockstep::launch
