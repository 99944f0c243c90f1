#include "lockstep/launch/local_job.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "lockstep/launch/blocked_signals.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/output_pump.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rank_streams.h"
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

/// As torchrun lays its logs out, below the folder of a run.
std::string log_folder(const LocalJobOptions& options, int rank) {
  return options.log_dir.empty() ? "" : options.log_dir + "/attempt_0/" + std::to_string(rank);
}

std::unique_ptr<store::Server> serve_store(const LocalJobOptions& options) {
  const BlockedSignals blocked;  // its thread must not take signals meant for the supervisor
  return std::make_unique<store::Server>(options.master_addr, options.master_port);
}

}  // namespace

LocalJobResult run_local_job(const LocalJobOptions& options) {
  check(options);
  const auto inherited = own_environment();
  ChildSpec spec;
  spec.program = find_program(options.command[0], search_path(inherited));
  spec.argv = options.command;
  const auto store = serve_store(options);
  OutputPump pump(options);
  std::optional<Supervisor> supervisor(std::in_place, options, pump);
  for (int rank = 0; rank < options.nproc_per_node; ++rank) {
    const bool reports = rank == 0 && options.on_report;
    const std::string folder = log_folder(options, rank);
    RankPlace place;
    place.rank = rank;
    place.store_port = store->port();
    place.report_fd = reports ? kExtraFd : -1;
    if (!folder.empty()) place.error_file = folder + "/error.json";
    place.run_id = "lockstep-" + std::to_string(::getpid());
    spec.environment = rank_environment(options, place, inherited);
    supervisor->start(rank, spec, std::make_unique<RankStreams>(rank, reports, folder, pump));
  }
  auto result = supervisor->run();
  supervisor.reset();  // signals have their old meaning again while the last lines are shown
  pump.finish();
  return result;
}

}  // namespace lockstep::launch
