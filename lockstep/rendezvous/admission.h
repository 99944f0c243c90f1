// Who may take part in a job: hosts that are equal where they must be, each once.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous {

/// `agent` with what its settings say in `equal`: numbers of hosts, restarts, times, the job's
/// name.
[[nodiscard]] Agent with_settings(Agent agent, const NodeSettings& settings);

/// Why `newcomer` may not take part in a job with these values; names both sides, and every field
/// that differs with both values. \param leader its name.
[[nodiscard]] std::optional<Problem> mismatch_of(const Agent& newcomer, const std::string& leader,
                                                 const std::map<std::string, std::string>& equal,
                                                 const NodeSettings& settings);

/// The same beside the agent that leads.
[[nodiscard]] std::optional<Problem> mismatch_of(const Agent& newcomer, const Agent& leader,
                                                 const NodeSettings& settings);
/// Whether agents with these values may be in one job.
[[nodiscard]] bool are_equal(const std::map<std::string, std::string>& one,
                             const std::map<std::string, std::string>& other,
                             const NodeSettings& settings);

/// Whether only one of two agents can take part: the same node rank, or one machine where each has
/// one agent.
[[nodiscard]] bool claim_one_place(const Agent& one, const Agent& other,
                                   const NodeSettings& settings);
/// What `newcomer` is told when `holder` was there before.
[[nodiscard]] Problem duplicate_of(const Agent& newcomer, const Agent& holder);

}  // namespace lockstep::rendezvous
