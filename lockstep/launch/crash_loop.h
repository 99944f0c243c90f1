// Whether starting the ranks again is of any use.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/rendezvous/session.h"

namespace lockstep::launch {

/// Sees the ends of rounds. Ranks that fail three times in a row at the same step, or that report
/// no steps and fail three times within their first seconds with the same words, will do so a
/// fourth time.
class CrashLoop {
 public:
  /// \param max_restarts three or fewer are tried without asking: somebody counted them.
  explicit CrashLoop(int max_restarts) : max_restarts_(max_restarts) {}

  /// \returns why the job should stop, for people; empty = start again.
  [[nodiscard]] std::string add(const rendezvous::RoundEnd& end);

 private:
  int max_restarts_;
  rendezvous::RoundEnd last_;
  int alike_ = 0;  // ends in a row
};

}  // namespace lockstep::launch
