#include "lockstep/launch/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "lockstep/base/limits.h"
#include "lockstep/base/socket.h"
#include "lockstep/launch/verdict.h"

namespace lockstep::launch {
namespace {

// A survivor often notices a death before the kernel has told the launcher of it.
constexpr std::chrono::milliseconds kSuspectTime{2000};
// What ranks of ours may still do when another has failed: nothing that counts. They may sit in a
// wait for the rank that is gone.
constexpr std::chrono::milliseconds kGraceAfterFailure{1000};
constexpr std::chrono::milliseconds kLookEvery{1000};
constexpr std::chrono::milliseconds kFenceLookEvery{100};  // where there is one
constexpr int kLooksFrozen = 2;                            // in a row, before a rank is given up

/// A stopped process (SIGSTOP) takes no SIGTERM. One that a debugger holds is in state t.
bool is_stopped(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');  // the name may hold anything
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] == 'T';
}

/// Libraries die of it before a program's first line, in words of their own.
std::string explain_shortage(const std::string& last_stderr) {
  for (const char* sign : {"std::bad_alloc", "failed to map segment", "Cannot allocate memory"}) {
    if (last_stderr.find(sign) == std::string::npos) continue;
    return "its memory ran out: " + limit_fault("", ENOMEM).problems().front().fix;
  }
  return "";
}

}  // namespace

Supervisor::Supervisor(const LocalJobOptions& options, OutputPump& pump, StopSignals& signals,
                       const RoundWatch& watch)
    : options_(options), pump_(pump), stop_signals_(signals), watch_(watch) {}

void Supervisor::start(int rank, int local_rank, ChildSpec spec,
                       std::unique_ptr<RankStreams> streams) {
  if (spec.stdout_fd < 0) spec.stdout_fd = streams->stdout_write();
  spec.stderr_fd = streams->stderr_write();
  spec.extra_fd = streams->report_write();
  const auto start = Clock::now();
  // This process may be stopped at any moment: the guardian knows first.
  tell_fence();
  spec.on_born = [this](int pid) { guardian_.watch(pid); };
  ChildProcess child(spec);
  streams->close_write_ends();
  const int pid = child.pid();
  ranks_.push_back({rank, local_rank, pid, std::move(child), std::move(streams), start});
}

LocalJobResult Supervisor::run() {
  tell_fence();
  while (!all_ended()) {
    auto set = poll_set();
    if (::poll(set.data(), set.size(), poll_timeout()) < 0)
      continue;  // EINTR: see the signals next time
    on_stop_signals();
    pass_signals_on();
    on_interrupt(set[2].revents != 0);
    tell_fence();
    if (set[1].revents != 0 && !std::exchange(pump_failed_, true)) kill_all();
    read_streams();
    collect_ends();
    on_deadline();
    look_for_frozen_ranks();
  }
  LocalJobResult result = judge(ends_, requested_, options_.ours);
  result.killed_on_request = requested_twice_;
  result.interrupted = interrupted_;
  return result;
}

std::vector<pollfd> Supervisor::poll_set() const {
  std::vector<pollfd> set{{stop_signals_.fd(), POLLIN, 0},
                          {pump_failed_ ? -1 : pump_.failure_fd(), POLLIN, 0},
                          {interrupted_ ? -1 : watch_.interrupt_fd, POLLIN, 0},
                          {stop_signals_.passed_on_fd(), POLLIN, 0}};
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
  const ChildEnd child = state.child.reap();
  const int signal = child.signal;
  guardian_.forget(state.pid);
  state.is_running = false;
  for (auto& stream : state.streams->streams()) stream.drain();
  RankEnd end;
  end.rank = state.rank;
  end.local_rank = state.local_rank;
  end.pid = state.pid;
  const auto place = static_cast<std::size_t>(state.local_rank);
  if (place < options_.logs.size()) end.error_file = options_.logs[place].error_file;
  end.ended_at_s = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  end.exit_code = child.exit_code;
  end.signal = signal;
  end.seconds = std::chrono::duration<double>(Clock::now() - state.start).count();
  // Asked to stop, a rank may still fail on its own: then it exits. Stopped for another's failure,
  // all that it does is a consequence.
  end.frozen = state.is_frozen && signal == SIGKILL;
  end.stopped_by_us = state.last_signal_sent != 0 && !end.frozen && (signal != 0 || !requested_);
  end.last_stderr = state.streams->stderr_tail().text();
  if (failed(end)) end.long_stderr = state.streams->stderr_tail().long_text();
  if (failed(end) && !end.stopped_by_us) end.hint = explain_shortage(end.last_stderr);
  if (signal == SIGKILL && !end.stopped_by_us && !end.frozen) {
    // The guardian may have been quicker than the news that there was an answer after all.
    end.hint = Clock::now() >= fence_ ? "by its guardian, which had heard nothing of the other "
                                        "hosts, or of its launcher, in time"
                                      : oom_watch_.explain_kill(child.peak_rss_bytes);
  }
  return end;
}

void Supervisor::react_to(const RankEnd& end) {
  if (!failed(end) || phase_ == Phase::stopping || phase_ == Phase::killing) return;
  if (options_.ours && has_exit(end, Exit::peer_lost)) {
    if (phase_ == Phase::running) wait_for(Phase::suspecting, kSuspectTime);
  } else if (options_.ours && has_exit(end, Exit::requeue)) {
    if (phase_ == Phase::running) wait_for(Phase::leaving, options_.stop_budget);
  } else {
    stop_after_failure();
    if (watch_.on_failure) watch_.on_failure(end);
  }
}

void Supervisor::on_stop_signals() {
  while (const auto number = stop_signals_.next()) {
    if (phase_ == Phase::stopping && interrupted_ && !requested_) {
      // All hosts are asked at once, and another one told this one first: no second wish.
      requested_ = true;
      if (watch_.on_stop) watch_.on_stop();
    } else if (phase_ == Phase::stopping) {
      requested_twice_ = requested_;
      kill_all();
    } else if (phase_ != Phase::killing) {
      requested_ = true;
      if (!options_.report_on_stop.empty()) pump_.push_report(options_.report_on_stop);
      // Workers of ours save and leave on SIGTERM; other programs get the signal that came.
      stop_all(options_.ours ? SIGTERM : *number, options_.stop_budget);
      if (watch_.on_stop) watch_.on_stop();
    }
  }
}

/// To the ranks alone: what they started (data workers, helpers) knows nothing of it. A rank that
/// does not await the signal would end of it.
void Supervisor::pass_signals_on() {
  while (const auto number = stop_signals_.next_passed_on()) {
    std::size_t told = 0;
    std::size_t others = 0;
    for (const auto& state : ranks_) {
      if (!state.is_running || state.is_frozen) continue;
      if (is_awaited(state.pid, *number)) {
        state.child.send_signal(*number);
        ++told;
      } else {
        ++others;
      }
    }
    if (watch_.on_passed_on) watch_.on_passed_on(*number, told, others);
  }
}

/// The round is over for a reason from outside this host.
void Supervisor::on_interrupt(bool is_over) {
  if (is_over && !interrupted_) {
    interrupted_ = true;
    const bool may_save = watch_.may_save && watch_.may_save();
    const bool is_stopping = phase_ == Phase::stopping || phase_ == Phase::killing;
    if (!is_stopping && may_save) stop_all(SIGTERM, options_.stop_budget);
    if (!is_stopping && !may_save) stop_after_failure();
  }
  const bool must_go = interrupted_ && phase_ != Phase::killing && watch_.is_fenced;
  if (must_go && watch_.is_fenced()) kill_all();
}

void Supervisor::tell_fence() {
  if (!watch_.fence_at) return;
  const Deadline fence = watch_.fence_at();
  if (fence != std::exchange(fence_, fence)) guardian_.fence(fence);
}

void Supervisor::on_deadline() {
  if (!deadline_.has_value() || Clock::now() < *deadline_) return;
  if (phase_ == Phase::suspecting) {
    stop_after_failure();
    const auto survivor = std::find_if(ends_.begin(), ends_.end(), failed);
    if (watch_.on_failure && survivor != ends_.end()) watch_.on_failure(*survivor);
    return;
  }
  kill_all();
}

void Supervisor::wait_for(Phase phase, std::chrono::milliseconds time) {
  phase_ = phase;
  deadline_ = Clock::now() + time;
}

void Supervisor::stop_after_failure() {
  const auto budget =
      options_.ours ? std::min(options_.stop_budget, kGraceAfterFailure) : options_.stop_budget;
  stop_all(SIGTERM, budget);
}

void Supervisor::stop_all(int signal, std::chrono::milliseconds budget) {
  wait_for(Phase::stopping, budget);
  for (auto& state : ranks_) {
    if (!state.is_running || state.is_frozen) continue;
    state.last_signal_sent = signal;
    if (is_stopped(state.pid)) {
      kill_frozen(state);
    } else if (options_.ours) {
      state.child.send_signal(signal);
    } else {  // a shell in front of the program would keep the signal to itself
      state.child.send_signal_to_group(signal);
    }
  }
}

/// A stopped rank looks to the others like a slow one: they would wait for their whole deadline.
void Supervisor::look_for_frozen_ranks() {
  const auto now = Clock::now();
  if (phase_ == Phase::killing || now < last_look_ + kLookEvery) return;
  // So late, this process was stopped as well (Ctrl-Z): what is stopped with it may go on with it.
  const bool is_late = now > last_look_ + 3 * kLookEvery;
  last_look_ = now;
  for (auto& state : ranks_) {
    if (!state.is_running || state.is_frozen) continue;
    if (is_late) state.looks_frozen = 0;
    state.looks_frozen = is_stopped(state.pid) ? state.looks_frozen + 1 : 0;
    if (state.looks_frozen >= kLooksFrozen) kill_frozen(state);
  }
}

/// Until the next thing that time alone brings.
int Supervisor::poll_timeout() const {
  if (phase_ == Phase::killing) return -1;
  const bool is_fence_near = interrupted_ || fence_ != Deadline::max();
  const auto look = is_fence_near ? Clock::now() + kFenceLookEvery : last_look_ + kLookEvery;
  return poll_timeout_ms(deadline_.has_value() ? std::min(*deadline_, look) : look);
}

void Supervisor::kill_frozen(RankState& state) {
  state.is_frozen = true;
  state.child.kill_group();
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
