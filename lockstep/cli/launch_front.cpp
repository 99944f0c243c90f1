#include "lockstep/cli/launch_front.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/launch_hosts.h"
#include "lockstep/cli/launch_shown.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/program.h"
#include "lockstep/engine/values/run_summary.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/launcher_process.h"
#include "lockstep/launch/leftovers.h"
#include "lockstep/launch/make_session.h"
#include "lockstep/launch/planned_hosts.h"
#include "lockstep/launch/program.h"
#include "lockstep/metrics/console.h"
#include "lockstep/metrics/report_line.h"
#include "lockstep/starters/job_environment.h"
#include "lockstep/topology/cluster.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::cli {
namespace {

int count_gpus(const Context& context) {
  const auto devices = static_cast<int>(probe_nvml().size());
  const char* visible = context.get_env ? context.get_env("CUDA_VISIBLE_DEVICES") : nullptr;
  if (visible == nullptr) return devices;
  const auto named = trim(visible).empty() ? 0 : static_cast<int>(split(visible, ',').size());
  return std::min(devices, named);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// One launch, from its flags to its end.
class Front {
 public:
  Front(LaunchJob job, const Context& context)
      : context_(context),
        console_(context.json ? context.err : context.out, console_options(context)),
        is_training_(job.is_training) {
    settings_.options = std::move(job.read.options);
    const launch::LaunchOptions& options = settings_.options;
    settings_.program = launch::make_program(options, context.get_env);
    if (!job.name.empty()) settings_.program.name = job.name;
    if (is_training_) settings_.program.first_argument = settings_.program.argv.size();
    settings_.argv_again = std::move(job.argv_again);
    settings_.inherits_input =
        options.nproc_per_node == 1 && !options.spans_hosts() && !is_training_ && !context.json;
    settings_.host = own_host_name();
    settings_.equal = std::move(job.equal);
    settings_.equal["lockstep"] = version_text(/*json=*/false);
    settings_.only_stderr = context.json;
    settings_.open_files = process_.open_files();
    const char* visible = context.get_env ? context.get_env("CUDA_VISIBLE_DEVICES") : nullptr;
    if (visible != nullptr) settings_.visible_devices = visible;
    const char* error_file = context.get_env ? context.get_env("TORCHELASTIC_ERROR_FILE") : nullptr;
    if (error_file != nullptr) settings_.error_file = error_file;
    settings_.run_id = options.standalone ? random_hex(32) : options.rdzv_id;
    settings_.cpus = launch::cpus_of_ranks(options.binding, options.nproc_per_node);
    settings_.say = [this](const std::string& line) { note(line); };
    for (const std::string& text : job.read.notes) note("note: " + text);
    choose_threads();
    if (settings_.program.is_ours) show_reports();
  }

  Exit dry_run() {
    const std::vector<launch::PlannedHost> hosts = launch::planned_hosts(settings_);
    auto plans = launch::plan_hosts(settings_, hosts);
    std::vector<ShownHost> shown;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      shown.push_back({.host = hosts[i].name, .ranks = std::move(plans[i])});
    }
    show_hosts(shown, context_);
    return Exit::ok;
  }

  Exit run() {
    note_leftovers(context_);
    const auto session =
        launch::make_session(settings_, [this](const std::string& why) { note(why); });
    const launch::AgentEnd end = launch::run_agent(settings_, *session);
    if (end.exit == Exit::ok && !end.lost.empty()) return end_lossy(end.lost);
    if (end.exit == Exit::ok && context_.json) {
      const nlohmann::ordered_json document{{"status", "done"}, {"restarts", end.restarts}};
      context_.out << (summary_ ? engine::to_json_text(*summary_) : to_line(document)) << std::endl;
    }
    if (end.exit == Exit::ok) return Exit::ok;
    console_.end_line();
    if (context_.json) {
      throw Error(end.exit, {{"LS-3006", settings_.program.name, end.text,
                              "the text names the first failure; the ranks' own output has more"}});
    }
    context_.err << (end.is_failure ? settings_.program.name + " failed: " : "") << end.text
                 << std::flush;
    return end.exit;
  }

 private:
  /// What was lost has been told when it was.
  Exit end_lossy(const std::vector<Problem>& lost) {
    if (context_.json) throw Error(Exit::environment, lost);
    console_.end_line();
    note(settings_.program.name + " ended well, but not all that its ranks printed was written");
    return Exit::environment;
  }

  void note(const std::string& line) const {
    if (!context_.quiet) context_.err << line << std::endl;
  }

  /// Ranks that share the cores of a host and each take all of them slow each other down.
  void choose_threads() {
    const char* chosen = context_.get_env ? context_.get_env("OMP_NUM_THREADS") : nullptr;
    if (settings_.program.is_ours || chosen != nullptr) return;
    const int ranks = settings_.options.nproc_per_node;
    if (ranks < 2) return;
    const int cores = count_cores();
    settings_.threads_per_rank = launch::threads_for(ranks, cores);
    note("OMP_NUM_THREADS=" + std::to_string(settings_.threads_per_rank) + " for each of " +
         std::to_string(ranks) + " ranks on " + std::to_string(cores) +
         " cores; set it to choose otherwise");
  }

  /// Ranks of ours report their steps to whoever started them.
  void show_reports() {
    settings_.on_report = [this](const std::string& line) {
      try {
        const metrics::ReportLine report = metrics::read_report_line(line);
        const auto* summary = std::get_if<engine::RunSummary>(&report);
        if (is_training_ && summary != nullptr) summary_ = *summary;
        console_.show(report);
      } catch (const BadData& error) {
        console_.note("a report of rank 0 cannot be read: " + error.problems().front().what);
      }
    };
    settings_.step_of = [](const std::string& line) -> std::optional<std::int64_t> {
      try {
        const auto report = metrics::read_report_line(line);
        const auto* step = std::get_if<engine::StepReport>(&report);
        return step == nullptr ? std::nullopt : std::optional<std::int64_t>(step->step);
      } catch (const BadData&) {
        return std::nullopt;
      }
    };
  }

  const Context& context_;
  launch::LauncherProcess process_;
  metrics::Console console_;
  launch::AgentSettings settings_;
  std::optional<engine::RunSummary> summary_;  // of a training
  bool is_training_;
};

/// The node's place as its scheduler says it, unless a flag speaks of nodes.
starters::NodeEnv node_of(const Args& args, const Context& context,
                          std::vector<Problem>& problems) {
  for (const char* flag : {"--nnodes", "--standalone", "--hosts", "--hostfile"}) {
    if (!args.has(flag)) continue;
    std::vector<Problem> not_read;  // whatever else stands there: how many launchers start counts
    starters::NodeEnv node;
    node.crowded = starters::read_node_environment(context.get_env, not_read).crowded;
    return node;
  }
  return starters::read_node_environment(context.get_env, problems);
}

}  // namespace

launch::ReadLaunch read_launch(const Args& args, const Context& context,
                               std::vector<std::string> program,
                               const std::map<std::string, std::string>& given) {
  launch::LaunchWords words;
  words.program = std::move(program);
  std::vector<Problem> problems;
  const starters::NodeEnv node = node_of(args, context, problems);
  words.get_env = starters::with_defaults(context.get_env, starters::pet_variables(node));
  for (const Flag& flag : kLaunchFlags) {
    if (!args.has(flag.name)) continue;
    words.flags[std::string(flag.name)] = flag.value.empty() ? "1" : args.text(flag.name);
  }
  for (const auto& [flag, value] : given) words.flags[flag] = value;
  launch::DeviceCounts counts;
  counts.cores = [] { return count_cores(); };
  counts.gpus = [&context] { return count_gpus(context); };
  launch::ReadLaunch read = launch::read_launch_options(words, counts);
  read.problems.insert(read.problems.end(), problems.begin(), problems.end());
  read.notes.insert(read.notes.end(), node.notes.begin(), node.notes.end());
  if (node.crowded && read.options.spans_hosts()) read.problems.push_back(*node.crowded);
  if (node.crowded && !read.options.spans_hosts()) read.notes.push_back(node.crowded->what);
  return read;
}

Exit run_launch(LaunchJob job, const Args& args, const Context& context) {
  if (names_hosts(job.read.options)) return launch_on_hosts(job, args, context);
  Front front(std::move(job), context);
  return args.has("--dry-run") ? front.dry_run() : front.run();
}

void note_leftovers(const Context& context) {
  if (context.quiet) return;
  for (const launch::Leftover& leftover : launch::find_leftovers()) {
    context.err << "note: " << launch::to_text(leftover) << std::endl;
  }
}

}  // namespace lockstep::cli
