// What is said when ranks have failed: the first one with everything known about it, the others as
// its consequences.
#pragma once
#include <string>
#include <vector>

#include "lockstep/launch/local_job.h"
#include "lockstep/rendezvous/round.h"

namespace lockstep::launch {

/// A rank's end as other hosts are told of it: its words are its error file, a traceback, or its
/// last lines.
[[nodiscard]] rendezvous::Failure failure_of(const RankEnd& end, const std::string& host,
                                             bool ours);

/// What only the host of a failure knows about it.
struct FailureDetails {
  std::int64_t ended_at_s = 0;  // since 1970; 0 = not known
  std::string error_file;       // that was written; empty = none
};

/// Several lines, each with its end:
///   rank 1 ended with exit code 3 after 2.14 s
///     time        2026-11-30 04:22:10
///     host        node-a
///     rank        1 (local rank 1, pid 4711)
///     error file  /tmp/x/attempt_0/1/error.json
///     traceback
///       | ...
[[nodiscard]] std::string failure_text(const rendezvous::Failure& failure,
                                       const FailureDetails& details);
/// One line without its end: "rank 0 on node-a was stopped by SIGTERM (pid 4710)".
[[nodiscard]] std::string consequence_text(const rendezvous::Failure& failure);

}  // namespace lockstep::launch
