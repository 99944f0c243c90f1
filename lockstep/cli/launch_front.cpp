#include "lockstep/cli/launch_front.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/launch_hosts.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/program.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/make_session.h"
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

/// A name that no other job has.
std::string new_run_id() {
  std::random_device random;
  constexpr std::array kDigits{'0', '1', '2', '3', '4', '5', '6', '7',
                               '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string id;
  for (int i = 0; i < 32; ++i) id += kDigits.at(random() % kDigits.size());
  return id;
}

/// One launch, from its flags to its end.
class Front {
 public:
  Front(const Args& args, const Context& context)
      : args_(args),
        context_(context),
        console_(context.json ? context.err : context.out, console_options(context)) {
    launch::ReadLaunch read = read_launch(args, context);
    settings_.options = std::move(read.options);
    const launch::LaunchOptions& options = settings_.options;
    settings_.program = launch::make_program(options, context.get_env);
    settings_.host = own_host_name();
    settings_.equal["lockstep"] = version_text(/*json=*/false);
    settings_.only_stderr = context.json;
    const char* visible = context.get_env ? context.get_env("CUDA_VISIBLE_DEVICES") : nullptr;
    if (visible != nullptr) settings_.visible_devices = visible;
    settings_.run_id = options.standalone ? new_run_id() : options.rdzv_id;
    settings_.cpus = launch::cpus_of_ranks(options.binding, options.nproc_per_node);
    settings_.say = [this](const std::string& line) { note(line); };
    for (const std::string& text : read.notes) note("note: " + text);
    choose_threads();
    if (settings_.program.is_ours) show_reports();
  }

  Exit dry_run() {
    const auto starts = launch::plan_round(settings_, launch::first_round(settings_));
    context_.json ? print_json(starts) : print_text(starts);
    return Exit::ok;
  }

  Exit run() {
    const auto session =
        launch::make_session(settings_, [this](const std::string& why) { note(why); });
    const launch::AgentEnd end = launch::run_agent(settings_, *session);
    if (end.exit == Exit::ok && context_.json) {
      const nlohmann::ordered_json document{{"status", "done"}, {"restarts", end.restarts}};
      context_.out << to_line(document) << std::endl;
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
        console_.show(metrics::read_report_line(line));
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

  /// Variables that a rank has and this process has not, or otherwise.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> changed(
      const launch::RankStart& start) const {
    std::vector<std::pair<std::string, std::string>> list;
    for (const std::string& entry : start.environment) {
      const std::string key = entry.substr(0, entry.find('='));
      std::string value = entry.substr(key.size() + 1);
      const char* own = context_.get_env ? context_.get_env(key.c_str()) : nullptr;
      if (key == "MASTER_PORT" && value == "0") value = "(a free one)";
      if (own == nullptr || value != own) list.emplace_back(key, std::move(value));
    }
    return list;
  }

  void print_text(const std::vector<launch::RankStart>& starts) const {
    for (const launch::RankStart& start : starts) {
      context_.out << "rank " << start.rank << " on " << settings_.host << "\n ";
      for (const std::string& word : start.argv) context_.out << ' ' << shell_word(word);
      context_.out << '\n';
      if (!start.cpus.empty()) {
        context_.out << "  on cores " << launch::cpu_list_text(start.cpus) << '\n';
      }
      for (const auto& [key, value] : changed(start)) {
        context_.out << "    " << key << '=' << shell_word(value) << '\n';
      }
    }
    context_.out << std::flush;
  }

  void print_json(const std::vector<launch::RankStart>& starts) const {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const launch::RankStart& start : starts) {
      nlohmann::ordered_json environment = nlohmann::ordered_json::object();
      for (const auto& [key, value] : changed(start)) environment[key] = value;
      ranks.push_back({{"rank", start.rank},
                       {"local_rank", start.local_rank},
                       {"command", start.argv},
                       {"cores", start.cpus},
                       {"environment", std::move(environment)}});
    }
    const nlohmann::ordered_json document{
        {"hosts", {{{"host", settings_.host}, {"ranks", std::move(ranks)}}}}};
    context_.out << to_line(document) << std::endl;
  }

  const Args& args_;
  const Context& context_;
  metrics::Console console_;
  launch::AgentSettings settings_;
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

launch::ReadLaunch read_launch(const Args& args, const Context& context) {
  launch::LaunchWords words;
  words.program = args.words();
  std::vector<Problem> problems;
  const starters::NodeEnv node = node_of(args, context, problems);
  words.get_env = starters::with_defaults(context.get_env, starters::pet_variables(node));
  for (const Flag& flag : find_command("launch")->flags) {
    if (!args.has(flag.name)) continue;
    words.flags[std::string(flag.name)] = flag.value.empty() ? "1" : args.text(flag.name);
  }
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

Exit run_launch(const Args& args, const Context& context) {
  const launch::ReadLaunch read = read_launch(args, context);
  if (names_hosts(read.options)) return launch_on_hosts(args, context, read.options);
  Front front(args, context);
  return args.has("--dry-run") ? front.dry_run() : front.run();
}

}  // namespace lockstep::cli
