// Watches the started ranks until all have ended: the first failure stops the rest.
#pragma once
#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/launch/child_process.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/launch/oom_watch.h"
#include "lockstep/launch/output_pump.h"
#include "lockstep/launch/rank_streams.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep::launch {

class Supervisor {
 public:
  Supervisor(const LocalJobOptions& options, OutputPump& pump, StopSignals& signals,
             const RoundWatch& watch);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() = default;

  /// Starts one rank. When it throws, the ranks already started die with this object.
  void start(int rank, int local_rank, ChildSpec spec, std::unique_ptr<RankStreams> streams);
  /// Returns when every rank has ended.
  [[nodiscard]] LocalJobResult run();

 private:
  using Clock = std::chrono::steady_clock;

  /// What the supervisor is waiting for beside the ranks.
  enum class Phase : unsigned char {
    running,
    suspecting,  // a rank lost a peer: which one will show in a moment
    leaving,     // a rank saved and left: the others are about to
    stopping,    // signals are sent
    killing,     // SIGKILL is sent
  };

  struct RankState {
    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    ChildProcess child;
    std::unique_ptr<RankStreams> streams;
    Clock::time_point start;
    bool is_running = true;
    int last_signal_sent = 0;
    int looks_frozen = 0;    // in a row at which the process was in state T
    bool is_frozen = false;  // and was killed for it
  };

  [[nodiscard]] std::vector<pollfd> poll_set() const;
  void read_streams();
  void collect_ends();
  [[nodiscard]] RankEnd reap(RankState& state);
  void react_to(const RankEnd& end);
  void on_stop_signals();
  void pass_signals_on();
  void on_interrupt(bool is_over);
  void tell_fence();
  void on_deadline();
  void look_for_frozen_ranks();
  [[nodiscard]] int poll_timeout() const;
  void wait_for(Phase phase, std::chrono::milliseconds time);
  void stop_all(int signal, std::chrono::milliseconds budget);
  void stop_after_failure();
  static void kill_frozen(RankState& state);
  void kill_all();
  [[nodiscard]] bool all_ended() const;

  const LocalJobOptions& options_;
  OutputPump& pump_;
  StopSignals& stop_signals_;
  const RoundWatch& watch_;
  Guardian guardian_;
  OomWatch oom_watch_;
  std::vector<RankState> ranks_;
  std::vector<RankEnd> ends_;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;   // of phase_
  Clock::time_point last_look_ = Clock::now();  // for frozen ranks
  bool requested_ = false;
  bool requested_twice_ = false;
  bool pump_failed_ = false;
  bool interrupted_ = false;
  Deadline fence_ = Deadline::max();  // as the guardian knows it
};

}  // namespace lockstep::launch
