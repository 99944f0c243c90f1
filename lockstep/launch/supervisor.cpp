#include "lockstep/launch/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "lockstep/base/socket.h"
#include "lockstep/launch/verdict.h"

namespace lockstep::launch {
namespace {

// A survivor often notices a death before the kernel has told the launcher of it.
constexpr std::chrono::milliseconds kSuspectTime{2000};

/// A stopped process (SIGSTOP, a debugger) takes no SIGTERM.
bool is_stopped(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');  // the name may hold anything
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] == 'T';
}

}  // namespace

Supervisor::Supervisor(const LocalJobOptions& options, OutputPump& pump)
    : options_(options), pump_(pump) {}

void Supervisor::start(int rank, ChildSpec spec, std::unique_ptr<RankStreams> streams) {
  spec.stdout_fd = streams->stdout_write();
  spec.stderr_fd = streams->stderr_write();
  spec.extra_fd = streams->report_write();
  const auto start = Clock::now();
  ChildProcess child(spec);
  streams->close_write_ends();
  guardian_.watch(child.pid());
  const int pid = child.pid();
  ranks_.push_back({rank, pid, std::move(child), std::move(streams), start});
}

LocalJobResult Supervisor::run() {
  while (!all_ended()) {
    auto set = poll_set();
    const int timeout_ms = deadline_.has_value() ? poll_timeout_ms(*deadline_) : -1;
    if (::poll(set.data(), set.size(), timeout_ms) < 0)
      continue;  // EINTR: see the signals next time
    on_stop_signals();
    if (set[1].revents != 0 && !std::exchange(pump_failed_, true)) kill_all();
    read_streams();
    collect_ends();
    on_deadline();
  }
  return judge(ends_, requested_, options_.ours);
}

std::vector<pollfd> Supervisor::poll_set() const {
  std::vector<pollfd> set{{stop_signals_.fd(), POLLIN, 0},
                          {pump_failed_ ? -1 : pump_.failure_fd(), POLLIN, 0}};
  for (const auto& state : ranks_) {
    if (!state.is_running) continue;
    set.push_back({state.child.pidfd(), POLLIN, 0});
    for (const auto& stream : state.streams->streams()) {
      if (stream.is_open()) set.push_back({stream.fd(), POLLIN, 0});
    }
  }
  return set;
}

void Supervisor::read_streams() {
  for (auto& state : ranks_) {
    for (auto& stream : state.streams->streams()) {
      if (stream.is_open()) stream.read();
    }
  }
}

void Supervisor::collect_ends() {
  std::vector<RankEnd> together;
  for (auto& state : ranks_) {
    if (!state.is_running) continue;
    pollfd ended{state.child.pidfd(), POLLIN, 0};
    if (::poll(&ended, 1, 0) > 0) together.push_back(reap(state));
  }
  sort_simultaneous(together, options_.ours);
  for (auto& end : together) {
    react_to(end);
    ends_.push_back(std::move(end));
  }
}

RankEnd Supervisor::reap(RankState& state) {
  const auto [exit_code, signal] = state.child.reap();
  guardian_.forget(state.pid);
  state.is_running = false;
  for (auto& stream : state.streams->streams()) stream.drain();
  RankEnd end;
  end.rank = state.rank;
  end.pid = state.pid;
  end.exit_code = exit_code;
  end.signal = signal;
  end.seconds = std::chrono::duration<double>(Clock::now() - state.start).count();
  // Asked to stop, a rank may still fail on its own: then it exits. Stopped for another's failure,
  // all that it does is a consequence.
  end.stopped_by_us = state.last_signal_sent != 0 && (signal != 0 || !requested_);
  end.last_stderr = state.streams->last_stderr();
  if (signal == SIGKILL && !end.stopped_by_us) end.hint = oom_watch_.explain_kill();
  return end;
}

void Supervisor::react_to(const RankEnd& end) {
  if (!failed(end) || phase_ == Phase::stopping || phase_ == Phase::killing) return;
  if (options_.ours && has_exit(end, Exit::peer_lost)) {
    if (phase_ == Phase::running) wait_for(Phase::suspecting, kSuspectTime);
  } else if (options_.ours && has_exit(end, Exit::requeue)) {
    if (phase_ == Phase::running) wait_for(Phase::leaving, options_.stop_budget);
  } else {
    stop_all(SIGTERM);
  }
}

void Supervisor::on_stop_signals() {
  while (const auto number = stop_signals_.next()) {
    if (phase_ == Phase::stopping) {
      kill_all();
    } else if (phase_ != Phase::killing) {
      requested_ = true;
      // Workers of ours save and leave on SIGTERM; other programs get the signal that came.
      stop_all(options_.ours ? SIGTERM : *number);
    }
  }
}

void Supervisor::on_deadline() {
  if (!deadline_.has_value() || Clock::now() < *deadline_) return;
  if (phase_ == Phase::suspecting) return stop_all(SIGTERM);
  kill_all();
}

void Supervisor::wait_for(Phase phase, std::chrono::milliseconds time) {
  phase_ = phase;
  deadline_ = Clock::now() + time;
}

void Supervisor::stop_all(int signal) {
  wait_for(Phase::stopping, options_.stop_budget);
  for (auto& state : ranks_) {
    if (!state.is_running) continue;
    state.last_signal_sent = signal;
    if (is_stopped(state.pid)) {
      state.child.kill_group();
    } else {
      state.child.send_signal(signal);
    }
  }
}

void Supervisor::kill_all() {
  phase_ = Phase::killing;
  deadline_.reset();  // SIGKILL cannot be refused
  for (auto& state : ranks_) {
    if (!state.is_running) continue;
    state.last_signal_sent = SIGKILL;
    state.child.kill_group();
  }
}

bool Supervisor::all_ended() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const auto& state) { return state.is_running; });
}

}  // namespace lockstep::launch
