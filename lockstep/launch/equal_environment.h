// What must be the same on all hosts of a job.
#pragma once
#include <map>
#include <string>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {

/// By field: "lockstep" (version and git state), "program" (SHA-256 of the file that the ranks
/// run), "devices" (names of the GPUs), "driver" (of the GPUs), and what the settings add.
[[nodiscard]] std::map<std::string, std::string> equal_environment(const AgentSettings& settings);

}  // namespace lockstep::launch
