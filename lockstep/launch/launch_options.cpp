#include "lockstep/launch/launch_options.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

#include "lockstep/base/nearest.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/rendezvous/records.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

constexpr int kMostPort = 65535;
constexpr std::size_t kMostShown = 64;  // of a wrong value

// Of etcd (LS-3066 says more).
constexpr const char* kNoTls =
    "etcd is reached over plain http here: leave it out, or name a proxy on each host that speaks "
    "TLS to it";

/// A value and where it stood: "--nnodes" or "PET_NNODES".
struct Given {
  std::string text;
  std::string where;
};

class Reader {
 public:
  Reader(const LaunchWords& words, const DeviceCounts& counts) : words_(words), counts_(counts) {}

  ReadLaunch read() {
    result_.options.program = words_.program;
    read_size();
    read_rendezvous();
    read_program();
    read_output();
    read_binding();
    read_signals();
    note_meaningless();
    check_together();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::optional<Given> given(std::string_view flag) const {
    const auto found = words_.flags.find(flag);
    if (found != words_.flags.end()) return Given{found->second, std::string(flag)};
    const std::string name = pet_name(flag);
    const char* value = words_.get_env ? words_.get_env(name.c_str()) : nullptr;
    if (value == nullptr || *value == '\0') return std::nullopt;  // unset in a pod's template
    return Given{value, name};
  }

  void refuse(const Given& value, std::string fix) {
    refuse(value.where, "cannot be " + value.text.substr(0, kMostShown), std::move(fix));
  }
  void refuse(std::string where, std::string what, std::string fix) {
    result_.problems.push_back({"LS-1013", std::move(where), std::move(what), std::move(fix)});
  }
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  /// What `parse` makes of a flag's value, or nothing.
  template <typename Parse>
  auto parsed(std::string_view flag, Parse parse, const std::string& fix)
      -> decltype(parse(std::string_view())) {
    const auto value = given(flag);
    if (!value) return std::nullopt;
    auto result = parse(std::string_view(value->text));
    if (!result) refuse(*value, fix);
    return result;
  }

  std::optional<int> number(std::string_view flag, int least, int most) {
    return parsed(
        flag,
        [&](std::string_view text) {
          const auto count = parse_count(text);
          return count && *count >= least && *count <= most ? count : std::nullopt;
        },
        "use a whole number from " + std::to_string(least) +
            (most < kAnyCount ? " to " + std::to_string(most) : " up"));
  }

  void text(std::string_view flag, std::string& target) {
    if (auto value = given(flag)) target = std::move(value->text);
  }

  bool is_on(std::string_view flag) {
    return parsed(flag, parse_switch, "use 1 or 0").value_or(false);
  }

  /// The place of a flag's word in `names`, or nothing.
  template <std::size_t kCount>
  std::optional<std::size_t> word(std::string_view flag,
                                  const std::array<std::string_view, kCount>& names) {
    const auto value = given(flag);
    if (!value) return std::nullopt;
    const auto found = std::find(names.begin(), names.end(), value->text);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    refuse(*value, did_you_mean(value->text, names, "use " + joined(names)));
    return std::nullopt;
  }

  template <std::size_t kCount>
  static std::string joined(const std::array<std::string_view, kCount>& names) {
    std::string text;
    for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
  }

  void read_size() {
    LaunchOptions& options = result_.options;
    if (const auto nodes = parsed("--nnodes", parse_nodes,
                                  "use a number of hosts, or MIN:MAX with MIN at least 1")) {
      options.nnodes = *nodes;
      if (nodes->most > static_cast<int>(rendezvous::kMostSeats)) {
        refuse(*given("--nnodes"),
               "a job has at most " + std::to_string(rendezvous::kMostSeats) + " hosts");
        options.nnodes = {};
      }
    }
    read_nproc();
    options.node_rank = number("--node-rank", 0, kAnyCount);
    options.max_restarts = number("--max-restarts", 0, kAnyCount).value_or(0);
    text("--role", options.role);
    text("--hostfile", options.hostfile);
    text("--hosts", options.hosts);
  }

  void read_nproc() {
    constexpr std::string_view kFlag = "--nproc-per-node";
    const auto value = given(kFlag);
    if (!value) return;
    if (const auto count = parse_count(value->text)) {
      result_.options.nproc_per_node = *count;
      if (*count < 1 || *count > kMostRanksOfAHost) {
        refuse(*value, "a host runs 1 to " + std::to_string(kMostRanksOfAHost) + " ranks");
      }
      return;
    }
    constexpr auto kWords = std::to_array<std::string_view>({"auto", "cpu", "gpu", "xpu"});
    const auto word = std::find(kWords.begin(), kWords.end(), value->text);
    if (word == kWords.end()) {
      return refuse(*value,
                    did_you_mean(value->text, kWords, "use a number, auto, cpu, gpu or xpu"));
    }
    result_.options.nproc_per_node = count_devices(*value);
  }

  int count_devices(const Given& value) {
    const auto ask = [](const std::function<int()>& count) { return count ? count() : 0; };
    int count = 0;
    if (value.text == "gpu" || value.text == "auto") count = ask(counts_.gpus);
    if (value.text == "xpu") count = ask(counts_.xpus);
    if (value.text == "cpu" || (value.text == "auto" && count == 0)) {
      count = std::max(1, ask(counts_.cores));
    }
    if (count == 0) {
      refuse(value.where, "is " + value.text + ", but this host has none",
             "name a number, or use cpu");
    }
    return std::clamp(count, 1, kMostRanksOfAHost);
  }

  void read_rendezvous() {
    LaunchOptions& options = result_.options;
    constexpr auto kBackends =
        std::to_array<std::string_view>({"static", "c10d", "etcd", "etcd-v2"});
    constexpr std::array kMeaning{RdzvBackend::fixed, RdzvBackend::c10d, RdzvBackend::etcd,
                                  RdzvBackend::etcd};
    if (const auto backend = word("--rdzv-backend", kBackends)) {
      options.rdzv_backend = kMeaning.at(*backend);
    }
    read_endpoints();
    text("--rdzv-id", options.rdzv_id);
    if (auto settings = parsed("--rdzv-conf", parse_settings, "use KEY=VALUE,KEY=VALUE")) {
      options.rdzv_conf = std::move(*settings);
      check_settings();
    }
    options.standalone = is_on("--standalone");
    if (const auto address = parsed("--master-addr", parse_endpoint, "use a host name or address"))
      options.master_addr = address->host;
    options.master_port = number("--master-port", 0, kMostPort);
    text("--local-addr", options.local_addr);
    read_secret_place();
    options.workers_identical = variable("TORCH_ELASTIC_WORKER_IDENTICAL") == "1";
    options.is_pod = !variable("KUBERNETES_SERVICE_HOST").empty();
    std::string fields;
    text("--may-differ", fields);
    for (const std::string& field : parse_filters(fields)) options.may_differ.insert(field);
  }

  [[nodiscard]] std::string variable(const char* name) const {
    const char* value = words_.get_env ? words_.get_env(name) : nullptr;
    return value == nullptr ? "" : value;
  }

  void read_secret_place() {
    text("--job-secret", result_.options.job_secret);
    std::string folder = variable("XDG_CONFIG_HOME");
    if (folder.empty()) folder = variable("HOME") + "/.config";
    result_.options.default_secret = folder + "/lockstep/job-secret";
  }

  /// An etcd of several servers is named by more than one of them.
  void read_endpoints() {
    LaunchOptions& options = result_.options;
    const auto value = given("--rdzv-endpoint");
    if (!value) return;
    std::vector<Endpoint> endpoints;
    for (std::string_view text : split(value->text, ',')) {
      constexpr std::string_view kHttp = "http://";
      if (text.starts_with("https://")) return refuse(*value, kNoTls);
      if (text.starts_with(kHttp)) text.remove_prefix(kHttp.size());
      const auto endpoint = parse_endpoint(text);
      if (!endpoint) return refuse(*value, "use HOST or HOST:PORT");
      endpoints.push_back(*endpoint);
    }
    if (endpoints.size() > 1 && options.rdzv_backend != RdzvBackend::etcd) {
      return refuse(*value, "only servers of etcd (--rdzv-backend etcd) may be several: keep one");
    }
    options.rdzv_endpoint = endpoints.front();
    options.more_endpoints.assign(endpoints.begin() + 1, endpoints.end());
  }

  /// The keys that torchrun's rendezvous read (torch/distributed/elastic/rendezvous, 2.11). What
  /// would weaken a job when it is not done is refused; what has no meaning here is told.
  void check_settings() {
    constexpr auto kRead = std::to_array<std::string_view>(
        {"timeout", "join_timeout", "last_call_timeout", "etcd_prefix", "protocol"});
    constexpr auto kNeedless = std::to_array<std::string_view>(
        {"close_timeout", "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt",
         "read_timeout", "store_type", "is_host", "use_libuv", "rank", "min_nodes", "max_nodes"});
    constexpr auto kOfTls = std::to_array<std::string_view>(
        {"cacert", "cert", "key", "ca_cert", "ssl_cert", "ssl_cert_key"});
    const auto is_in = [](const auto& names, std::string_view key) {
      return std::find(names.begin(), names.end(), key) != names.end();
    };
    for (const auto& [key, value] : result_.options.rdzv_conf) {
      if (is_in(kOfTls, key) || (key == "protocol" && value != "http")) {
        refuse("--rdzv-conf", key + "=" + value.substr(0, kMostShown) + " asks for TLS", kNoTls);
      } else if (is_in(kNeedless, key)) {
        note("--rdzv-conf " + key + " is not read: it is of torchrun's own rendezvous");
      } else if (!is_in(kRead, key)) {
        note("--rdzv-conf " + key +
             " is not read: " + did_you_mean(key, kRead, "the keys are " + joined(kRead)));
      }
    }
  }

  void read_program() {
    LaunchOptions& options = result_.options;
    options.module = is_on("--module");
    options.no_python = is_on("--no-python");
    options.run_path = is_on("--run-path");
    constexpr auto kWords = std::to_array<std::string_view>({"dash", "underscore"});
    if (const auto flag = word("--pass-local-rank", kWords)) {
      options.pass_local_rank = *flag == 0 ? RankFlag::dash : RankFlag::underscore;
    }
  }

  void read_output() {
    LaunchOptions& options = result_.options;
    text("--log-dir", options.log_dir);
    const std::string fix =
        "use 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:STREAMS,... as in 0:3,1:0";
    if (auto streams = parsed("--redirects", parse_streams, fix)) options.redirects = *streams;
    if (auto streams = parsed("--tee", parse_streams, fix)) options.tee = *streams;
    if (auto ranks = parsed("--local-ranks-filter", parse_ranks, "use local ranks, as in 0,2"))
      options.local_ranks_filter = std::move(*ranks);
    std::string filters;
    text("--duplicate-stdout-filters", filters);
    options.stdout_filters = parse_filters(filters);
    filters.clear();
    text("--duplicate-stderr-filters", filters);
    options.stderr_filters = parse_filters(filters);
    const char* prefix =
        words_.get_env ? words_.get_env("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE") : nullptr;
    if (prefix != nullptr && *prefix != '\0') options.line_prefix = prefix;
  }

  void read_binding() {
    LaunchOptions& options = result_.options;
    constexpr auto kModes =
        std::to_array<std::string_view>({"node", "socket", "exclusive", "core-complex"});
    constexpr std::array kMeaning{CoreBinding::node, CoreBinding::socket, CoreBinding::exclusive,
                                  CoreBinding::core_complex};
    if (const auto mode = word("--numa-binding", kModes)) options.binding = kMeaning.at(*mode);
    if (is_on("--bind-cores")) {
      if (options.binding != CoreBinding::none) {
        refuse("--bind-cores", "contradicts --numa-binding", "keep one of the two");
      }
      options.binding = CoreBinding::cores;
    }
    options.virtual_local_rank = is_on("--virtual-local-rank");
  }

  /// The end of a child, a write that fails, an error of its own: none is a wish of anybody.
  static bool is_of_this_process(int number) {
    constexpr std::array kOwn{SIGCHLD, SIGPIPE, SIGXFSZ, SIGSEGV, SIGBUS,
                              SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,  SIGABRT};
    return std::find(kOwn.begin(), kOwn.end(), number) != kOwn.end();
  }

  void read_signals() {
    const Given names =
        given("--signals-to-handle").value_or(Given{"SIGTERM,SIGINT,SIGHUP,SIGQUIT", ""});
    for (const std::string& name : split(names.text, ',')) {
      if (trim(name).empty()) continue;
      const auto number = parse_signal(name);
      if (number && is_of_this_process(*number)) {
        refuse(names.where, "cannot hold " + name + ": it comes from the launcher's own work",
               "leave it out");
      } else if (number) {
        result_.options.stop_signals.push_back(*number);
      } else if (parse_signal("SIG" + std::string(trim(name)))) {
        refuse(names.where, "cannot hold " + name, "write SIG" + std::string(trim(name)));
      } else {
        constexpr auto kUsual = std::to_array<std::string_view>(
            {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"});
        refuse(names.where, "cannot hold " + name.substr(0, kMostShown),
               did_you_mean(name, kUsual, "name signals that a process may handle: SIGUSR1"));
      }
    }
  }

  /// What torchrun's own workings need and ours do not.
  void note_meaningless() {
    constexpr auto kMethods = std::to_array<std::string_view>({"spawn", "fork", "forkserver"});
    const bool good_method = !given("--start-method") || word("--start-method", kMethods);
    if (good_method) note_unread("--start-method", "ranks are programs, started by fork and exec");
    if (parsed("--monitor-interval", parse_seconds, "use a number of seconds")) {
      note_unread("--monitor-interval", "the end of a rank is seen at once");
    }
    const auto handler = given("--event-log-handler");
    if (handler && handler->text != "null") {
      note_unread("--event-log-handler", "it names a Python object");
    }
    note_unread("--logs-specs", "it names a Python object");
    const char* timer = words_.get_env ? words_.get_env("TORCHELASTIC_ENABLE_FILE_TIMER") : nullptr;
    if (timer != nullptr && std::string_view(timer) == "1") {
      note("TORCHELASTIC_ENABLE_FILE_TIMER is not read: there is no timer of that kind here");
    }
  }

  void note_unread(std::string_view flag, const std::string& why) {
    if (const auto value = given(flag)) note(value->where + " is not read: " + why);
  }

  static std::optional<double> parse_seconds(std::string_view text) {
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const bool good = error == std::errc() && end == text.data() + text.size() && seconds >= 0;
    return good ? std::optional(seconds) : std::nullopt;
  }

  /// Values that are good alone, but not beside each other.
  void check_together() {
    LaunchOptions& options = result_.options;
    if (options.module && options.no_python && !options.run_path) {
      refuse("--module", "contradicts --no-python", "a module runs under Python: keep one of them");
    }
    if (options.standalone && options.spans_hosts()) {
      refuse("--standalone", "is for one host, and --nnodes says more", "leave one of the two out");
    }
    if (options.standalone) options.rdzv_endpoint.reset();
    if (!options.hosts.empty() && !options.hostfile.empty()) {
      refuse("--hosts", "contradicts --hostfile", "name the hosts in one place");
    }
    const bool is_fixed = options.rdzv_backend == RdzvBackend::fixed && !options.standalone;
    const bool is_named = !options.hosts.empty() || !options.hostfile.empty();  // never static
    if (is_fixed && !is_named && options.nnodes.least != options.nnodes.most) {
      refuse("--nnodes", "is a range, and the static rendezvous has a fixed number of hosts",
             "add --rdzv-backend c10d, or name one number");
    }
    if (is_fixed && options.node_rank.value_or(0) >= options.nnodes.most) {
      refuse("--node-rank",
             "is " + std::to_string(*options.node_rank) + " of " +
                 std::to_string(options.nnodes.most) + " hosts",
             "hosts count from 0; --nnodes says how many there are");
    }
    check_meeting_port();
    note_ranks_that_are_not_there();
  }

  /// 0 is a free port, and each host would find another one.
  void check_meeting_port() {
    const LaunchOptions& options = result_.options;
    if (!options.spans_hosts()) return;
    const bool has_endpoint = options.rdzv_endpoint.has_value();
    if (has_endpoint ? options.rdzv_endpoint->port != 0 : options.master_port != 0) return;
    refuse(has_endpoint ? "--rdzv-endpoint" : "--master-port",
           "has port 0, and several hosts must know where they meet",
           "name a port that is free on the first host, or leave it out");
  }

  [[nodiscard]] bool tees(unsigned stream) const {
    const StreamChoice& tee = result_.options.tee;
    return (tee.of_all & stream) != 0 ||
           std::any_of(tee.of_rank.begin(), tee.of_rank.end(),
                       [&](const auto& one) { return (one.second & stream) != 0; });
  }

  void note_ranks_that_are_not_there() {
    const LaunchOptions& options = result_.options;
    if (!options.hosts.empty() || !options.hostfile.empty()) return;  // each has its own number
    const auto look = [&](const std::string& flag, int rank) {
      if (rank < options.nproc_per_node) return;
      note(flag + " names local rank " + std::to_string(rank) + ", and this host has ranks 0 to " +
           std::to_string(options.nproc_per_node - 1));
    };
    for (const auto& [rank, streams] : options.redirects.of_rank) look("--redirects", rank);
    for (const auto& [rank, streams] : options.tee.of_rank) look("--tee", rank);
    for (const int rank : options.local_ranks_filter) look("--local-ranks-filter", rank);
    for (const unsigned stream : {kStdout, kStderr}) {
      const bool is_out = stream == kStdout;
      if ((is_out ? options.stdout_filters : options.stderr_filters).empty()) continue;
      if (tees(stream)) continue;
      const std::string name = is_out ? "stdout" : "stderr";
      note("--duplicate-" + name + "-filters looks at lines of --tee, which leaves " + name +
           " out");
    }
  }

  static constexpr int kAnyCount = 1'000'000'000;

  const LaunchWords& words_;
  const DeviceCounts& counts_;
  ReadLaunch result_;
};

}  // namespace

std::string pet_name(std::string_view flag) {
  std::string name = "PET_";
  for (const char c : flag.substr(std::min<std::size_t>(2, flag.size()))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

ReadLaunch read_launch_options(const LaunchWords& words, const DeviceCounts& counts) {
  return Reader(words, counts).read();
}

}  // namespace lockstep::launch
