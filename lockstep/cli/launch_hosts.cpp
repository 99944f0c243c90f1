#include "lockstep/cli/launch_hosts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>
#include <utility>

#include "lockstep/base/random_hex.h"
#include "lockstep/base/socket.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/launch_shown.h"
#include "lockstep/cli/parser.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/launcher_process.h"
#include "lockstep/launch/planned_hosts.h"
#include "lockstep/launch/program.h"
#include "lockstep/starters/remote_agent.h"

extern char** environ;

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Said anew for each host, or meant for this process alone.
constexpr auto kNotHandedOn = std::to_array<std::string_view>(
    {"--hosts", "--hostfile", "--nnodes", "--nproc-per-node", "--node-rank", "--rdzv-backend",
     "--rdzv-endpoint", "--rdzv-id", "--master-addr", "--master-port", "--standalone", "--dry-run",
     "--ssh-port", "--ssh-identity", "--ssh-config", "--remote-program", "--help", "--local-addr",
     "--job-secret"});

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one)
    environment.emplace_back(*one);
  return environment;
}

/// Of this process those that ranks of every host should see, then the lines of .deepspeed_env in
/// the home and the working folder (DS_ENV_FILE names another file), as DeepSpeed's launcher has
/// it.
std::vector<std::string> variables_for_hosts(const Context& context) {
  std::vector<std::string> variables = starters::passed_on(own_environment());
  const auto text_of = [&](const char* name) {
    const char* value = context.get_env ? context.get_env(name) : nullptr;
    return std::string(value == nullptr ? "" : value);
  };
  const std::string named = text_of("DS_ENV_FILE");
  const std::string name = named.empty() ? ".deepspeed_env" : named;
  std::vector<Problem> problems;
  for (const fs::path& path : {fs::path(text_of("HOME")) / name, fs::path(name)}) {
    std::ifstream in(path, std::ios::binary);
    if (!in) continue;
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    starters::VariableLines lines = starters::parse_variable_lines(text, path.string());
    variables.insert(variables.end(), lines.variables.begin(), lines.variables.end());
    problems.insert(problems.end(), lines.problems.begin(), lines.problems.end());
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return variables;
}

/// PET_* variables of this process as its launchers are to see them. What is said anew for each
/// host becomes empty, which is unset: a launcher that found PET_HOSTS would start launchers
/// itself.
std::vector<std::string> launch_variables(const Context& context) {
  std::vector<std::string> variables;
  const auto add = [&](const std::string& name, bool is_said_anew) {
    const char* value = context.get_env ? context.get_env(name.c_str()) : nullptr;
    if (is_said_anew) variables.push_back(name + "=");
    if (!is_said_anew && value != nullptr) variables.push_back(name + "=" + value);
  };
  for (const Flag& flag : kLaunchFlags) {
    add(launch::pet_name(flag.name),
        std::find(kNotHandedOn.begin(), kNotHandedOn.end(), flag.name) != kNotHandedOn.end());
  }
  add("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", false);
  return variables;
}

/// Where a launcher works, too.
std::string own_folder() {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  if (!error) return folder.string();
  throw EnvironmentFault({"LS-3083", "the working folder", "it does not exist any more",
                          "start this in a folder that all hosts have"});
}

void check_count(const launch::LaunchOptions& options, const Args& args, int count) {
  if (!args.has("--nnodes") || options.nnodes.least <= count) return;
  throw UsageError({{"LS-1013", "--nnodes",
                     "says " + std::to_string(options.nnodes.least) + ", and " +
                         counted(count, "host") + (count == 1 ? " is" : " are") + " named",
                     "leave --nnodes out: all named hosts take part"}});
}

/// Where the launchers meet: as named, else at the first host.
std::string endpoint_of(const launch::LaunchOptions& options, const std::string& first) {
  const bool is_etcd = options.rdzv_backend == launch::RdzvBackend::etcd;
  if (is_etcd && !options.rdzv_endpoint) {
    throw UsageError({{"LS-1013", "--rdzv-endpoint", "the hosts meet in etcd, and it is not named",
                       "name its servers: --rdzv-endpoint e1:2379,e2:2379"}});
  }
  if (options.rdzv_endpoint) {
    const int usual = is_etcd ? launch::kEtcdPort : launch::kC10dPort;
    const auto text_of = [&](const launch::Endpoint& endpoint) {
      return address_text(endpoint.host, endpoint.port < 0 ? usual : endpoint.port);
    };
    std::string text = text_of(*options.rdzv_endpoint);
    for (const launch::Endpoint& more : options.more_endpoints)
      text.append(",").append(text_of(more));
    return text;
  }
  return address_text(first, options.master_port.value_or(launch::kC10dPort));
}

/// The flags of this call that mean the same on every host.
std::vector<std::string> handed_on(const Args& args) {
  std::vector<std::string> words;
  for (const Flag& flag : all_flags(*find_command("launch"))) {
    const bool stays =
        std::find(kNotHandedOn.begin(), kNotHandedOn.end(), flag.name) != kNotHandedOn.end();
    if (stays || !args.has(flag.name)) continue;
    words.emplace_back(flag.name);
    if (!flag.value.empty()) words.push_back(args.text(flag.name));
  }
  return words;
}

/// With --json each launcher prints one document: that of the host with rank 0 is the job's where
/// it is a summary, else they are all alike.
class Documents {
 public:
  bool take(const std::string& line) {
    const auto document = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) return false;
    const bool says_more = !document.contains("status") && !document.contains("errors");
    if (text_.empty() || says_more) text_ = line;
    return true;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A host that failed, for people; with --json the one document.
Exit report_end(const starters::SshJobResult& result, const Context& context) {
  const bool is_lossy = result.exit == Exit::ok && !result.lost.empty();
  if (is_lossy && context.json) throw Error(Exit::environment, result.lost);
  if (is_lossy) return Exit::environment;  // told when it was lost
  if (!result.first_failure) return result.exit;
  if (context.json) throw Error(result.exit, {*result.first_failure});
  context.err << to_text({*result.first_failure}) << std::flush;
  return result.exit;
}

/// The ranks of each host, where the script is here too; which cores and devices a host has it
/// knows alone.
std::vector<std::vector<launch::RankStart>> known_ranks(const LaunchJob& asked, const Args& args,
                                                        const Context& context,
                                                        const starters::SshJobOptions& job) {
  launch::AgentSettings settings;
  settings.options = asked.read.options;
  settings.options.rdzv_backend = launch::RdzvBackend::c10d;  // or etcd: the store is as with it
  settings.options.binding = launch::CoreBinding::none;
  settings.run_id = settings.options.rdzv_id;
  if (settings.run_id == "none") settings.run_id = "(a random one)";
  try {
    settings.program = launch::make_program(settings.options, context.get_env);
  } catch (const UsageError&) {
    return {};
  }
  const std::vector<starters::HostSlots> slots = hosts_of(settings.options);
  std::vector<launch::PlannedHost> hosts;
  for (std::size_t i = 0; i < job.agents.size(); ++i) {
    const auto ranks = launch::parse_count(args.text("--nproc-per-node", asked.ranks_of_host));
    if (slots[i].slots == 0 && !ranks) return {};
    hosts.push_back({job.agents[i].host, slots[i].slots > 0 ? slots[i].slots : *ranks});
  }
  return launch::plan_hosts(settings, hosts);
}

void print_job(const LaunchJob& asked, const Args& args, const Context& context,
               const starters::SshJobOptions& job) {
  auto ranks = known_ranks(asked, args, context, job);
  ranks.resize(job.agents.size());
  std::vector<ShownHost> shown;
  for (std::size_t i = 0; i < job.agents.size(); ++i) {
    const starters::AgentOrder& order = job.agents[i].order;
    shown.push_back(
        {job.agents[i].host, order.command, order.folder, order.environment, std::move(ranks[i])});
  }
  show_hosts(shown, context);
}

}  // namespace

std::vector<starters::HostSlots> hosts_of(const launch::LaunchOptions& options) {
  if (!options.hostfile.empty()) return starters::read_hostfile(options.hostfile);
  starters::HostList list = starters::parse_host_list(options.hosts);
  if (!list.problems.empty()) throw UsageError(std::move(list.problems));
  return std::move(list.hosts);
}

starters::SshJobOptions job_on_hosts(const LaunchJob& asked, const Args& args,
                                     const Context& context) {
  const launch::LaunchOptions& options = asked.read.options;
  const std::vector<starters::HostSlots> hosts = hosts_of(options);
  const auto count = static_cast<int>(hosts.size());
  starters::SshJobOptions job;
  job.program = context.program_path;
  job.own_environment = own_environment();
  job.ssh.port = static_cast<int>(args.integer("--ssh-port").value_or(0));
  job.ssh.identity = args.text("--ssh-identity");
  job.ssh.config_file = args.text("--ssh-config");
  job.ssh.remote_program = args.text("--remote-program");
  check_count(options, args, count);
  const int least = args.has("--nnodes") ? std::min(options.nnodes.least, count) : count;
  job.ends_together = least == count;
  const std::string nodes = std::to_string(least) + ":" + std::to_string(count);
  const std::string id = options.rdzv_id == "none" ? random_hex(32) : options.rdzv_id;
  const std::string secret = random_hex(64);
  const std::string program = job.ssh.remote_program.empty() ? job.program : job.ssh.remote_program;
  for (int node = 0; node < count; ++node) {
    const starters::HostSlots& host = hosts[static_cast<std::size_t>(node)];
    starters::AgentOrder order;
    order.command = {program, asked.command, "--nproc-per-node",
                     host.slots > 0 ? std::to_string(host.slots)
                                    : args.text("--nproc-per-node", asked.ranks_of_host)};
    if (count == 1) order.command.insert(order.command.end(), {"--nnodes", "1"});
    if (count > 1) {
      order.command.insert(
          order.command.end(),
          {"--nnodes", least == count ? std::to_string(count) : nodes, "--node-rank",
           std::to_string(node), "--rdzv-backend",
           options.rdzv_backend == launch::RdzvBackend::etcd ? "etcd" : "c10d", "--rdzv-endpoint",
           endpoint_of(options, hosts.front().name), "--rdzv-id", id});
    }
    for (const std::string& word : handed_on(args)) order.command.push_back(word);
    const std::vector<std::string>& words = asked.words.empty() ? options.program : asked.words;
    order.command.insert(order.command.end(), words.begin(), words.end());
    order.environment = variables_for_hosts(context);
    for (std::string& one : launch_variables(context)) order.environment.push_back(std::move(one));
    order.folder = own_folder();
    if (count > 1) {
      order.secret = secret;
      std::string where = "PET_JOB_SECRET=";
      where += starters::kSecretDescriptor;
      order.environment.push_back(std::move(where));
    }
    job.agents.push_back({host.name, std::move(order)});
  }
  return job;
}

Exit launch_on_hosts(const LaunchJob& asked, const Args& args, const Context& context) {
  starters::SshJobOptions job = job_on_hosts(asked, args, context);
  if (args.has("--dry-run")) {
    print_job(asked, args, context, job);
    return Exit::ok;
  }
  const launch::LauncherProcess process;
  job.open_files = process.open_files();
  Documents documents;
  if (context.json) {
    job.take_out = [&](const std::string& line) { return documents.take(line); };
  }
  const Exit exit = report_end(starters::run_over_ssh(job), context);
  if (!documents.text().empty()) context.out << documents.text() << std::endl;
  return exit;
}

}  // namespace lockstep::cli
