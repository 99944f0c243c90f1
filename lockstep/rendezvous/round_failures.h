// Which failure of a round came first, and what it makes of the job.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rendezvous/round.h"

namespace lockstep::rendezvous {

/// Causes first, by the time since the round began; then ranks that lost a peer. Clocks of hosts
/// are not compared: all began when the same state came.
void sort_by_cause(std::vector<Failure>& failures);

/// "rank 3 on node7 (pid 4711): killed by SIGKILL"
[[nodiscard]] std::string text_of(const Failure& failure);

/// By the rule of docs/cli.md. \param ours the ranks keep its exit codes.
[[nodiscard]] Exit exit_after(const std::optional<Failure>& first, bool ours);

}  // namespace lockstep::rendezvous
