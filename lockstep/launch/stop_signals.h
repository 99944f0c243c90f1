// SIGTERM and other signals that stop a job, as something to poll while a job runs.
#pragma once
#include <signal.h>

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

/// Takes the signals over while it lives, then gives them back. A signal that was ignored
/// before (nohup) stays ignored. One at a time in a process. SIGPIPE is ignored meanwhile.
class StopSignals {
 public:
  explicit StopSignals(const std::vector<int>& signals = {SIGTERM, SIGINT, SIGHUP});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Readable when a signal has come.
  [[nodiscard]] int fd() const { return read_end_.get(); }
  /// The next signal that came, in order.
  [[nodiscard]] std::optional<int> next();

 private:
  Fd read_end_;
  Fd write_end_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace lockstep::launch
