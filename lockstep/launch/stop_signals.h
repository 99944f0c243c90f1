// SIGTERM and other signals that stop a job, and those that are meant for its ranks, as something
// to poll while a job runs.
#pragma once
#include <signal.h>

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

/// What no launcher has a use for, and programs do: Slurm sends them before a job's time is up.
[[nodiscard]] inline std::vector<int> user_signals() { return {SIGUSR1, SIGUSR2}; }

/// Takes the signals over while it lives, then gives them back. A signal that was ignored
/// before (nohup) stays ignored. One at a time in a process. SIGPIPE is ignored meanwhile.
class StopSignals {
 public:
  /// \param stop ask the job to end. \param passed_on are the ranks' own affair: they would kill
  /// this process. A signal in both lists asks to end.
  explicit StopSignals(const std::vector<int>& stop = {SIGTERM, SIGINT, SIGHUP},
                       const std::vector<int>& passed_on = {});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Readable when a signal has come that asks the job to end.
  [[nodiscard]] int fd() const { return stop_.read.get(); }
  /// The next of them that came, in order.
  [[nodiscard]] std::optional<int> next() { return next_in(stop_); }

  /// Readable when one has come that is to be passed on.
  [[nodiscard]] int passed_on_fd() const { return passed_on_.read.get(); }
  [[nodiscard]] std::optional<int> next_passed_on() { return next_in(passed_on_); }

 private:
  struct Pipe {
    Fd read;
    Fd write;
  };
  static Pipe make_pipe();
  static std::optional<int> next_in(const Pipe& pipe);

  Pipe stop_ = make_pipe();
  Pipe passed_on_ = make_pipe();
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// Whether the main thread of process `pid` does something about signal `number` other than to end
/// of it: it handles, waits for or ignores it.
[[nodiscard]] bool is_awaited(int pid, int number);

}  // namespace lockstep::launch
