// What all hosts of a job would start, as far as it is known before they have met.
#pragma once
#include <string>
#include <vector>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {

struct PlannedHost {
  std::string name;
  int ranks = 1;
};

/// The hosts of `settings`, by group rank. Without a list of them each is taken to start as many
/// ranks as this one; this one stands where --node-rank says, else first, the others are "node 1",
/// "node 2".
[[nodiscard]] std::vector<PlannedHost> planned_hosts(const AgentSettings& settings);

/// The first start of the ranks of each of `hosts`. Where the store of the ranks will be is a word
/// in brackets when it is decided at the start.
[[nodiscard]] std::vector<std::vector<RankStart>> plan_hosts(const AgentSettings& settings,
                                                             const std::vector<PlannedHost>& hosts);

}  // namespace lockstep::launch
