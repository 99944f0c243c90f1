#include "lockstep/starters/ssh_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "lockstep/base/limits.h"
#include "lockstep/base/units.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/line_splitter.h"
#include "lockstep/launch/lost_output.h"
#include "lockstep/launch/rank_streams.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/starters/hostfile.h"
#include "lockstep/starters/remote_agent.h"

namespace lockstep::starters {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLongestLine = 64 << 10;
// What ssh itself, and a shell that does not find the program, end with.
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

struct Pipe {
  Fd read;
  Fd write;
};

Pipe make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw limit_fault("no pipe can be made", errno);
  return {Fd(fds[0]), Fd(fds[1])};
}

std::string path_of(const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    if (variable.starts_with("PATH=")) return variable.substr(5);
  }
  return "";
}

/// The client of one host: what it is still to be told, what it prints, and how it ended.
class Client {
 public:
  Client(const SshJobOptions& options, const RemoteAgent& agent, launch::LostOutput& lost)
      : options_(options), agent_(agent), lost_(lost), unsent_(to_bytes(agent.order)) {
    const Pipe input = make_pipe();
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    launch::ChildSpec spec;
    spec.argv = argv();
    spec.program = launch::find_program(spec.argv.front(), path_of(options.own_environment));
    spec.environment = options.own_environment;
    spec.open_files = options.open_files;
    spec.stdin_fd = input.read.get();
    spec.stdout_fd = out.write.get();
    spec.stderr_fd = err.write.get();
    order_.reset(::fcntl(input.write.get(), F_DUPFD_CLOEXEC, 0));
    if (!order_) throw limit_fault("no descriptor is left", errno);
    ::fcntl(order_.get(), F_SETFL, O_NONBLOCK);
    child_ = std::make_unique<launch::ChildProcess>(spec);
    add_stream(std::move(out.read), false);
    add_stream(std::move(err.read), true);
  }

  [[nodiscard]] bool is_running() const { return child_ != nullptr; }

  void add_to(std::vector<pollfd>& set) const {
    if (!is_running()) return;
    set.push_back({child_->pidfd(), POLLIN, 0});
    for (const launch::Stream& stream : streams_) {
      if (stream.is_open()) set.push_back({stream.fd(), POLLIN, 0});
    }
    if (order_ && !unsent_.empty()) set.push_back({order_.get(), POLLOUT, 0});
  }

  /// Takes what is there and hands over what fits. \returns its end, once.
  std::optional<AgentEnd> turn(const std::vector<pollfd>& set) {
    if (!is_running()) return std::nullopt;
    for (launch::Stream& stream : streams_) {
      if (stream.is_open() && is_ready(set, stream.fd())) stream.read();
    }
    send();
    if (!is_ready(set, child_->pidfd())) return std::nullopt;
    const launch::ChildEnd end = child_->reap();
    child_.reset();
    for (launch::Stream& stream : streams_) {
      if (stream.is_open()) stream.drain();
    }
    return AgentEnd{agent_.host, end.exit_code,
                    end.signal,  std::chrono::duration<double>(Clock::now() - start_).count(),
                    asked_,      tail_.text()};
  }

  void ask_to_stop() {
    if (!is_running()) return;
    asked_ = true;
    unsent_ += kStopByte;
  }

  void pass_on(int signal) {
    if (is_running()) unsent_ += signal == SIGUSR1 ? kUser1Byte : kUser2Byte;
  }

  void kill() {
    if (!is_running()) return;
    asked_ = true;
    order_.reset();
    child_->kill_group();
  }

 private:
  [[nodiscard]] std::vector<std::string> argv() const {
    if (!options_.always_ssh && is_this_machine(agent_.host)) {
      return {options_.program, kRemoteAgentFlag};
    }
    const std::string& there = options_.ssh.remote_program;
    return ssh_argv(options_.ssh, agent_.host, there.empty() ? options_.program : there);
  }

  static bool is_ready(const std::vector<pollfd>& set, int fd) {
    return std::any_of(set.begin(), set.end(),
                       [&](const pollfd& one) { return one.fd == fd && one.revents != 0; });
  }

  void send() {
    while (order_ && !unsent_.empty()) {
      const ssize_t count = ::write(order_.get(), unsent_.data(), unsent_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0) {  // nobody reads any more: the client is about to end
        unsent_.clear();
        return;
      }
      unsent_.erase(0, static_cast<std::size_t>(count));
    }
  }

  void add_stream(Fd read_end, bool is_stderr) {
    auto lines = std::make_shared<launch::LineSplitter>(kLongestLine, launch::Overlong::cut,
                                                        [this, is_stderr](std::string line) {
                                                          if (is_stderr) tail_.add(line);
                                                          show(is_stderr, line);
                                                        });
    streams_.emplace_back(
        std::move(read_end), [lines](std::string_view bytes) { lines->feed(bytes); },
        [lines] { lines->finish(); });
  }

  void show(bool is_stderr, const std::string& line) const {
    if (options_.on_line) return options_.on_line(agent_.host, is_stderr, line);
    if (options_.take_out && !is_stderr && options_.take_out(line)) return;
    lost_.write(is_stderr || options_.take_out ? STDERR_FILENO : STDOUT_FILENO,
                "[" + agent_.host + "] " + line + "\n");
  }

  const SshJobOptions& options_;
  const RemoteAgent& agent_;
  launch::LostOutput& lost_;
  std::string unsent_;
  Fd order_;  // its end is the end of the launcher over there
  std::unique_ptr<launch::ChildProcess> child_;
  std::vector<launch::Stream> streams_;
  launch::Tail tail_;
  Clock::time_point start_ = Clock::now();
  bool asked_ = false;
};

Problem problem_of(const AgentEnd& end, const std::string& program) {
  const std::string last = end.last_stderr.substr(end.last_stderr.rfind('\n') + 1);
  if (end.exit_code == kSshFailed) {
    return {"LS-3081", end.host, "ssh failed" + (last.empty() ? "" : ": " + last),
            "this must work without a question: ssh -o BatchMode=yes " + end.host + " true"};
  }
  if (end.exit_code == kNotFound || end.exit_code == kNotExecutable) {
    return {"LS-3084", end.host, "lockstep cannot be started there as " + program,
            "install it at that path on every host, or name its path there"};
  }
  return {"LS-3085", end.host,
          end.signal != 0 ? "its launcher was cut off after " + format_duration(end.seconds)
                          : "its launcher ended with exit code " + std::to_string(end.exit_code) +
                                " after " + format_duration(end.seconds),
          "its lines above, marked [" + end.host + "], say why"};
}

bool has_failed(const AgentEnd& end) { return end.exit_code != 0 || end.signal != 0; }

bool is_saved(const AgentEnd& end) {
  return end.signal == 0 && end.exit_code == static_cast<int>(Exit::requeue);
}

/// The code that a failed host stands for: its own where lockstep knows it.
Exit exit_of(const AgentEnd& end) {
  if (end.exit_code == kSshFailed || end.exit_code == kNotFound ||
      end.exit_code == kNotExecutable) {
    return Exit::environment;
  }
  for (const Exit known : {Exit::usage, Exit::environment, Exit::bad_data, Exit::peer_lost,
                           Exit::bug, Exit::requeue}) {
    if (end.signal == 0 && end.exit_code == static_cast<int>(known)) return known;
  }
  return Exit::failed;
}

class Job {
 public:
  explicit Job(const SshJobOptions& options)
      : options_(options), signals_({SIGTERM, SIGINT, SIGHUP, SIGQUIT}, launch::user_signals()) {
    for (const RemoteAgent& agent : options.agents) {
      clients_.push_back(std::make_unique<Client>(options, agent, lost_));
    }
  }

  SshJobResult run() {
    while (std::any_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->is_running(); })) {
      std::vector<pollfd> set{{signals_.fd(), POLLIN, 0}, {signals_.passed_on_fd(), POLLIN, 0}};
      for (const auto& client : clients_) client->add_to(set);
      ::poll(set.data(), set.size(), poll_timeout());
      for (const auto& client : clients_) {
        if (auto end = client->turn(set)) take(*std::move(end));
      }
      while (signals_.next()) on_request();
      while (const auto number = signals_.next_passed_on()) {
        for (const auto& client : clients_) client->pass_on(*number);
      }
      if (deadline_ && Clock::now() >= *deadline_) on_deadline();
    }
    judge();
    result_.lost = lost_.problems();
    return std::move(result_);
  }

 private:
  enum class Phase { running, following, stopping, killing };

  [[nodiscard]] int poll_timeout() const {
    if (!deadline_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    return std::max(0, static_cast<int>(left.count()));
  }

  void take(AgentEnd end) {
    const bool is_cause = has_failed(end) && !is_saved(end) && !end.ended_by_us;
    if (is_cause && !result_.first_failure) {
      result_.first_failure =
          problem_of(end, options_.ssh.remote_program.empty() ? options_.program
                                                              : options_.ssh.remote_program);
      first_exit_ = exit_of(end);
    }
    result_.ends.push_back(std::move(end));
    if (is_cause && options_.ends_together && phase_ == Phase::running) {
      enter(Phase::following, options_.follow_time);
    }
  }

  void enter(Phase phase, std::chrono::milliseconds time) {
    phase_ = phase;
    deadline_ = Clock::now() + time;
  }

  void stop_all() {
    for (const auto& client : clients_) client->ask_to_stop();
    enter(Phase::stopping, options_.stop_budget);
  }

  void kill_all() {
    for (const auto& client : clients_) client->kill();
    phase_ = Phase::killing;
    deadline_.reset();
  }

  void on_request() {
    requested_ = true;
    if (phase_ == Phase::stopping) return kill_all();
    if (phase_ != Phase::killing) stop_all();
  }

  void on_deadline() {
    if (phase_ == Phase::following) return stop_all();
    kill_all();
  }

  void judge() {
    const auto all = [&](auto test) {
      return std::all_of(result_.ends.begin(), result_.ends.end(), test);
    };
    const auto good = [](const AgentEnd& end) { return !has_failed(end) || is_saved(end); };
    if (all([](const AgentEnd& end) { return !has_failed(end); })) {
      result_.exit = Exit::ok;
    } else if (all(good)) {
      result_.exit = Exit::requeue;
    } else if (!options_.ends_together && !requested_ &&
               std::any_of(result_.ends.begin(), result_.ends.end(),
                           [](const AgentEnd& end) { return !has_failed(end); })) {
      result_.exit = Exit::ok;  // the hosts that stayed have done the work
    } else {
      result_.exit = first_exit_.value_or(Exit::failed);
    }
  }

  const SshJobOptions& options_;
  launch::LostOutput lost_;
  launch::StopSignals signals_;  // before the clients: none may start outside its reach
  std::vector<std::unique_ptr<Client>> clients_;
  SshJobResult result_;
  std::optional<Exit> first_exit_;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;
  bool requested_ = false;
};

}  // namespace

SshJobResult run_over_ssh(const SshJobOptions& options) {
  std::vector<Problem> problems;
  for (const RemoteAgent& agent : options.agents) {
    if (is_host_name(agent.host)) continue;
    problems.push_back({"LS-1042", "--hosts", "one of the hosts is no host",
                        "a host is a name of letters, digits, '.', '-' and '_', or an address"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return Job(options).run();
}

}  // namespace lockstep::starters
