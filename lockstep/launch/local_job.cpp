#include "lockstep/launch/local_job.h"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/lost_output.h"
#include "lockstep/launch/output_pump.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rank_streams.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/store/server.h"

namespace lockstep::launch {
namespace {

void check(const LocalJobOptions& options) {
  LOCKSTEP_CHECK(!options.command.empty(), "a job without a command");
  if (options.nproc_per_node >= 1 && options.nproc_per_node <= kMostRanksOfAHost) return;
  throw UsageError({{"LS-1013", "--nproc-per-node",
                     "a host runs 1 to " + std::to_string(kMostRanksOfAHost) + " ranks, not " +
                         std::to_string(options.nproc_per_node),
                     "give the number of ranks on this host, for example --nproc-per-node 2"}});
}

/// The variables of this process, which the ranks inherit.
std::vector<std::string> own_environment() {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

std::string search_path(const std::vector<std::string>& environment) {
  constexpr std::string_view kKey = "PATH=";
  for (const auto& entry : environment) {
    if (entry.starts_with(kKey)) return entry.substr(kKey.size());
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

/// `options`, complete: what was left to be found out is filled in.
LocalJobOptions completed(LocalJobOptions options) {
  check(options);
  if (options.place.run_id.empty()) {
    options.place.run_id = "lockstep-" + std::to_string(::getpid());
  }
  if (!options.logs.empty() || options.log_dir.empty()) return options;
  for (int rank = 0; rank < options.nproc_per_node; ++rank) {
    // As torchrun lays its logs out, below the folder of a run.
    const std::string folder = options.log_dir + "/attempt_0/" + std::to_string(rank);
    options.logs.push_back({{folder + "/stdout.log", StreamLog::Shown::no},
                            {folder + "/stderr.log", StreamLog::Shown::no},
                            folder + "/error.json"});
  }
  return options;
}

template <typename Value>
Value of_rank(const std::vector<Value>& list, int local_rank) {
  const auto place = static_cast<std::size_t>(local_rank);
  return place < list.size() ? list[place] : Value{};
}

bool reports(const LocalJobOptions& options, int local_rank) {
  return options.place.base_rank + local_rank == 0 && options.on_report;
}

RankStart plan_rank(const LocalJobOptions& options, int local_rank,
                    const std::vector<std::string>& inherited) {
  RankPlace place;
  place.local_rank = local_rank;
  place.store_port = options.master_port;
  place.report_fd = reports(options, local_rank) ? kExtraFd : -1;
  place.error_file = of_rank(options.logs, local_rank).error_file;
  for (const auto& entry : of_rank(options.rank_env, local_rank)) place.variables.push_back(entry);
  auto environment = rank_environment(options, place, inherited);
  auto argv = of_rank(options.commands, local_rank);
  if (argv.empty()) argv = options.command;
  return {options.place.base_rank + local_rank, local_rank, std::move(argv), std::move(environment),
          of_rank(options.cpus, local_rank)};
}

std::unique_ptr<store::Server> serve_store(const LocalJobOptions& options) {
  const BlockedSignals blocked;  // its thread must not take signals meant for the supervisor
  return std::make_unique<store::Server>(options.master_addr, options.master_port);
}

/// Lets a rank read what this process could: a pipe, a file, or the terminal that it stands in the
/// foreground of. The rank's session is then its own, so that the terminal, which is not that
/// session's, neither stops it for reading (SIGTTIN) nor sends it Ctrl-C past this process.
void hand_input_on(const LocalJobOptions& options, ChildSpec& spec) {
  if (!options.inherits_input) return;
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  if (is_terminal && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  spec.stdin_fd = STDIN_FILENO;
  spec.own_session = true;
  const bool is_plain =
      options.logs.empty() || (options.logs.front().out.file.empty() &&
                               options.logs.front().out.shown == StreamLog::Shown::raw);
  // A debugger's prompt is no whole line.
  if (is_terminal && ::isatty(STDOUT_FILENO) == 1 && is_plain) spec.stdout_fd = STDOUT_FILENO;
}

LocalJobResult run_completed(const LocalJobOptions& options, std::optional<StopSignals>& own,
                             StopSignals& signals, const RoundWatch& watch) {
  const auto inherited = own_environment();
  ChildSpec spec;
  spec.program = find_program(options.command[0], search_path(inherited));
  hand_input_on(options, spec);
  spec.open_files = options.open_files;
  LostOutput of_this_round;
  LostOutput& lost = options.lost != nullptr ? *options.lost : of_this_round;
  OutputPump pump(options, lost);
  std::optional<Supervisor> supervisor(std::in_place, options, pump, signals, watch);
  for (int local_rank = 0; local_rank < options.nproc_per_node; ++local_rank) {
    RankStart start = plan_rank(options, local_rank, inherited);
    spec.argv = std::move(start.argv);
    spec.environment = std::move(start.environment);
    spec.cpus = std::move(start.cpus);
    supervisor->start(start.rank, local_rank, spec,
                      std::make_unique<RankStreams>(start.rank, local_rank, options, pump, lost));
  }
  auto result = supervisor->run();
  supervisor.reset();
  own.reset();  // signals have their old meaning again while the last lines are shown
  pump.finish();
  result.lost = lost.problems();
  return result;
}

}  // namespace

LocalJobResult run_local_job(const LocalJobOptions& given) {
  LocalJobOptions options = completed(given);
  const auto store = serve_store(options);
  options.master_port = store->port();
  std::vector<int> numbers{SIGTERM, SIGINT, SIGHUP};
  if (options.ours) numbers.push_back(SIGUSR1);  // of Slurm, before a job's time is up
  std::optional<StopSignals> signals(std::in_place, numbers, user_signals());
  return run_completed(options, signals, *signals, {});
}

LocalJobResult run_round(const LocalJobOptions& options, StopSignals& signals,
                         const RoundWatch& watch) {
  std::optional<StopSignals> none;
  return run_completed(completed(options), none, signals, watch);
}

std::vector<RankStart> plan_ranks(const LocalJobOptions& given) {
  const LocalJobOptions options = completed(given);
  const auto inherited = own_environment();
  std::vector<RankStart> starts;
  for (int local_rank = 0; local_rank < options.nproc_per_node; ++local_rank) {
    starts.push_back(plan_rank(options, local_rank, inherited));
  }
  return starts;
}

}  // namespace lockstep::launch
