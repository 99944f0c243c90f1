#include "lockstep/cli/train_agent.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/run_dir.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/launch_hosts.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/config/parse.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/data_manifest.h"
#include "lockstep/rundir/run_check.h"
#include "lockstep/rundir/start.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::cli {
namespace {

/// Of a launch, but the front of one host reads them too.
constexpr auto kOfTheFront = std::to_array<std::string_view>(
    {"--nproc-per-node", "--master-addr", "--master-port", "--dry-run"});

/// They speak of a program, and training has its own.
constexpr auto kOfAProgram =
    std::to_array<std::string_view>({"--module", "--no-python", "--run-path", "--pass-local-rank"});

constexpr std::size_t kShownDigits = 16;  // of a hash, where hosts differ

template <std::size_t kCount>
bool is_in(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// All flags of `args` that are none of a launch, RUN.toml first.
std::vector<std::string> words_of_run(const Args& args, std::vector<std::string_view> leave_out) {
  for (const Flag& flag : kLaunchFlags) leave_out.push_back(flag.name);
  for (const char* flag : {"--as", "--help", "--json"}) leave_out.emplace_back(flag);
  return words_of(*find_command("train"), args, leave_out);
}

bool has_launch_flag(const Args& args) {
  return std::any_of(kLaunchFlags.begin(), kLaunchFlags.end(), [&](const Flag& flag) {
    return args.has(flag.name) && !is_in(kOfTheFront, flag.name);
  });
}

bool has_variable(const Context& context, const char* name) {
  const char* value = context.get_env ? context.get_env(name) : nullptr;
  return value != nullptr && *value != '\0';
}

/// The ranks of each host, as text. parallel.data counts those of all hosts. Empty where
/// PET_NPROC_PER_NODE says it.
std::string ranks_of_host(const Args& args, const Context& context, const config::RunConfig& config,
                          int hosts) {
  if (!args.has(kNprocFlag.name)) {
    if (has_variable(context, "PET_NPROC_PER_NODE")) return "";
    const int ranks = config.parallel.data.value_or(hosts);
    if (hosts > 1) return std::to_string(ranks % hosts == 0 ? ranks / hosts : 1);
  }
  return std::to_string(ranks_of(args, config, probe_host()));
}

void need_run_dir(const Args& args) {
  if (!args.text("--run-dir").empty()) return;
  throw UsageError({{"LS-1013", "--run-dir", "ranks on several hosts need one that all of them see",
                     "name a folder of a shared file system: --run-dir /shared/runs/first"}});
}

/// What the ranks of a later round go on from. Until this job has written a checkpoint it is what
/// --resume says: those that are there are an earlier run's.
class Resume {
 public:
  Resume(const Args& args, const Context& context, planner::Job job)
      : args_(args), context_(context), job_(std::move(job)), first_(newest()) {}

  std::vector<std::string> command(bool was_first) const {
    const std::string now = newest();
    const bool has_own = !now.empty() && !(was_first && now == first_);
    return rank_command(args_, context_, job_.run_dir, has_own ? "auto" : job_.resume);
  }

 private:
  [[nodiscard]] std::string newest() const {
    const auto point = resume_point(job_);
    return point ? point->name : "";
  }

  const Args& args_;
  const Context& context_;
  planner::Job job_;
  std::string first_;  // the newest checkpoint at the start; empty = none
};

/// `ranks` where the configuration says how many this host has.
launch::ReadLaunch read(const Args& args, const Context& context, const std::string& ranks) {
  std::map<std::string, std::string> given;
  if (!ranks.empty()) given["--nproc-per-node"] = ranks;
  launch::ReadLaunch read = read_launch(args, context, {context.program_path}, given);
  launch::LaunchOptions& options = read.options;
  options.no_python = true;
  options.module = options.run_path = false;
  options.pass_local_rank = launch::RankFlag::none;
  for (const std::string_view flag : kOfAProgram) {
    if (args.has(flag))
      read.notes.push_back(std::string(flag) + " is not read: it is of a program");
  }
  return read;
}

/// Whether anything asks for a launcher; a value that cannot be read does as well.
bool asks_for_launcher(const Args& args, const launch::ReadLaunch& read) {
  const launch::LaunchOptions& options = read.options;
  return has_launch_flag(args) || options.spans_hosts() || options.max_restarts > 0 ||
         names_hosts(options);
}

/// What a checked job needs beside its flags: the ranks' command and what hosts compare.
void fill_in(LaunchJob& job, const Args& args, const Context& context,
             const config::RunConfig& config) {
  planner::Job run;
  run.config = config;
  run.run_dir = args.text("--run-dir");
  run.resume = args.text("--resume", "auto");
  run.allow_change = args.all("--allow-change");
  rundir::check_start(run);
  const bool runs_here = !args.has("--dry-run") && !names_hosts(job.read.options);
  if (runs_here) run.run_dir = make_run_dir(run.run_dir, config.run.name).string();
  if (run.run_dir.empty()) run.run_dir = "RUN_DIR";
  job.name = config.run.name;
  job.equal["config"] = config::config_hash(config).substr(0, kShownDigits);
  const std::string data = rundir::data_manifest(config.data);
  if (!data.empty()) job.equal["data"] = data.substr(0, kShownDigits);
  job.is_training = true;
  job.command = "train";
  job.words = words_of_run(args, {"--quiet", "--no-color"});
  const std::string resume = run.resume;
  auto words = rank_command(args, context, run.run_dir, resume);
  job.read.options.program = std::move(words);
  job.argv_again = [later = Resume(args, context, std::move(run))](bool was_first) {
    return later.command(was_first);
  };
}

}  // namespace

std::vector<std::string> rank_command(const Args& args, const Context& context,
                                      const std::string& run_dir, const std::string& resume) {
  std::vector<std::string> words = words_of_run(args, {"--run-dir", "--resume"});
  words.insert(words.begin(), {context.program_path, "train"});
  words.insert(words.end(), {"--as", "rank", "--run-dir", run_dir, "--resume", resume});
  return words;
}

std::optional<LaunchJob> read_train_launch(const Args& args, const Context& context) {
  const launch::ReadLaunch asked = read(args, context, "1");
  if (!asks_for_launcher(args, asked)) return std::nullopt;
  const bool on_named = names_hosts(asked.options);
  const bool spans_hosts = on_named || asked.options.spans_hosts();
  if (spans_hosts) need_run_dir(args);
  rundir::RunCheck check(read_run(args));
  const int hosts =
      on_named ? static_cast<int>(hosts_of(asked.options).size()) : asked.options.nnodes.most;
  LaunchJob job;
  job.ranks_of_host = ranks_of_host(args, context, check.config(), hosts);
  job.read = read(args, context, job.ranks_of_host);
  if (!job.read.problems.empty()) check.add(UsageError(job.read.problems));
  // How many ranks there are on all hosts is known when they have met: then a rank looks.
  if (!spans_hosts) (void)check.plan(check.config(), probe_host(), job.read.options.nproc_per_node);
  if (!args.has("--dry-run") && !on_named) check.check_data();
  check.require_none();
  fill_in(job, args, context, check.config());
  return job;
}

}  // namespace lockstep::cli
