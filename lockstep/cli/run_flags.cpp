#include "lockstep/cli/run_flags.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "lockstep/base/units.h"

namespace lockstep::cli {

config::ParsedConfig read_run(const Args& args) {
  const std::vector<std::string>& sets = args.all(kSetFlag.name);
  if (!args.words().empty()) return config::parse_run_file(args.words().front(), sets);
  return config::parse_run_config("", "", sets);
}

std::vector<Problem> run_file_problems(const Args& args, const Context& /*context*/) {
  try {
    return read_run(args).problems;
  } catch (const UsageError& error) {
    return error.problems();
  }
}

void print_notes(const std::vector<std::string>& notes, const Context& context) {
  if (context.quiet) return;
  for (const std::string& note : notes) context.err << "note: " << note << "\n";
  context.err << std::flush;
}

rundir::CheckedRun check_run(const Args& args, const Context& context, const Host& host,
                             int world_size, bool needs_data) {
  rundir::RunCheck check(read_run(args));
  std::optional<parallel::ParallelPlan> plan;
  try {
    const int ranks = world_size > 0 ? world_size : ranks_of(args, check.config(), host);
    plan = check.plan(check.config(), host, ranks);
  } catch (const UsageError& error) {
    check.add(error);
  }
  if (needs_data) check.check_data();
  rundir::CheckedRun run = check.checked(std::move(plan));
  print_notes(run.notes, context);
  return run;
}

std::string crowding_text(int ranks, int threads, int cores) {
  if (std::int64_t{ranks} * threads <= cores) return "";
  return counted(ranks, "rank") + " of " + counted(threads, "thread") +
         (ranks == 1 ? " shares " : " share ") + counted(cores, "core");
}

int ranks_of(const Args& args, const config::RunConfig& config, const Host& host) {
  const std::string given = args.text(kNprocFlag.name);
  if (given == "auto" || given == "cpu") return std::max(1, host.cores / config.run.threads);
  if (!given.empty()) return static_cast<int>(*args.integer(kNprocFlag.name));
  const int ranks = config.parallel.data.value_or(1);
  if (ranks <= launch::kMostRanksOfAHost) return ranks;
  throw UsageError(
      {{"LS-1013", "parallel.data",
        std::to_string(ranks) + " ranks, but a host runs at most " +
            std::to_string(launch::kMostRanksOfAHost),
        "lower it, or start the ranks on several hosts with torchrun, srun or mpirun"}});
}

}  // namespace lockstep::cli
