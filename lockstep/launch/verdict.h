// Which rank failed first, and what the job's exit code is. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/local_job.h"

namespace lockstep::launch {

[[nodiscard]] inline bool failed(const RankEnd& end) {
  return end.exit_code != 0 || end.signal != 0;
}
[[nodiscard]] inline bool has_exit(const RankEnd& end, Exit exit) {
  return end.signal == 0 && end.exit_code == static_cast<int>(exit);
}

/// Fills exit, first_failure and stopped_on_request from the ends, in order of ending.
/// \param requested a signal asked the launcher to stop.
/// \param ours the ranks keep the exit codes of docs/cli.md.
[[nodiscard]] LocalJobResult judge(std::vector<RankEnd> ends, bool requested, bool ours);

/// "was killed by SIGKILL", "ended with exit code 3 (the machine is at fault)".
[[nodiscard]] std::string how_ended(const RankEnd& end, bool ours);

/// The exit of a job whose first failing rank ended so: its own code where that is one of
/// docs/cli.md from a rank of ours, else 1.
[[nodiscard]] Exit exit_for(int exit_code, int signal, bool ours);

/// Sorts the ends that became known in one moment, so that the likely cause comes first: deaths by
/// a signal, other failures, "a peer was lost", successes; by rank within each.
void sort_simultaneous(std::vector<RankEnd>& ends, bool ours);

}  // namespace lockstep::launch
