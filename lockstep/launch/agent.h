// The launcher of one host at work: takes rounds from its session, runs this host's ranks in each,
// and reports how they ended.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/launch_options.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/launch/program.h"
#include "lockstep/rendezvous/session.h"
#include "lockstep/store/server.h"

namespace lockstep::launch {

struct AgentSettings {
  LaunchOptions options;
  RankProgram program;
  std::string host;  // this one's name, for people
  std::string run_id;
  int threads_per_rank = 0;                    // OMP_NUM_THREADS; 0 = as it is
  std::vector<std::vector<int>> cpus;          // by local rank; empty = all
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES of this process
  /// The port at which this host serves the ranks' store when it comes first in a round; 0 = the
  /// session does.
  int store_port = 0;
  std::string error_file;  // where whoever started this wants to read why it fails; empty = nowhere
  std::map<std::string, std::string> equal;  // must be on all hosts, by field: "lockstep", "config"
  std::function<void(const std::string& line)> say;  // to people, as things happen
  /// What ranks run in a round that is not the job's first, where that is something else: asked
  /// before each. `was_first`: this launcher was there in the first.
  std::function<std::vector<std::string>(bool was_first)> argv_again;
  bool inherits_input = false;   // the one rank reads this process's standard input
  bool only_stderr = false;      // where all that ranks print is shown
  std::uint64_t open_files = 0;  // soft limit of a rank (RLIMIT_NOFILE); 0 = as this process
  /// What ranks of ours report (LOCKSTEP_REPORT_FD), line by line; on a thread of the job.
  std::function<void(const std::string& line)> on_report;
  /// The step that a reported line names; nothing where it names none.
  std::function<std::optional<std::int64_t>(const std::string& line)> step_of;
};

struct AgentEnd {
  Exit exit = Exit::ok;
  int restarts = 0;           // that were used up
  std::string text;           // for people; empty when all ended well
  bool is_failure = false;    // of a rank: `text` says of which
  std::vector<Problem> lost;  // of what ranks printed; told when it happened
};

/// Runs the job to its end. SIGTERM and the other signals of --signals-to-handle stop it; a second
/// one kills. SIGUSR1 and SIGUSR2, where that flag does not name them, are handed to the ranks that
/// await them; of ranks of ours SIGUSR1 saves and stops as SIGTERM does. \throws what the session
/// throws, EnvironmentFault when ranks cannot be started.
[[nodiscard]] AgentEnd run_agent(const AgentSettings& settings, rendezvous::Session& session);

/// What this host's ranks would be started with in `round`.
[[nodiscard]] std::vector<RankStart> plan_round(const AgentSettings& settings,
                                                const rendezvous::Round& round);

/// OMP_NUM_THREADS for each of `ranks` on a host of `cores` where nobody has chosen; 0 = leave it.
[[nodiscard]] int threads_for(int ranks, int cores);

}  // namespace lockstep::launch
