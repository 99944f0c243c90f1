// Ranks of one job on the two hosts of a NetworkPair, as torchrun starts them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/support/network_pair.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

/// \param on_each ranks of a host: groups of one are over Gloo, of more over shared memory and
/// Gloo. The first rank serves the store, at a port for each such number.
[[nodiscard]] inline std::vector<std::unique_ptr<RunningProgram>> start_on_two_hosts(
    const NetworkPair& network, int on_each, const std::vector<std::string>& command,
    ProgramOptions options = {}) {
  std::vector<std::unique_ptr<RunningProgram>> ranks;
  for (int rank = 0; rank < 2 * on_each; ++rank) {
    const int host = rank / on_each;
    options.extra_env = {"RANK=" + std::to_string(rank),
                         "WORLD_SIZE=" + std::to_string(2 * on_each),
                         "LOCAL_RANK=" + std::to_string(rank % on_each),
                         "LOCAL_WORLD_SIZE=" + std::to_string(on_each),
                         "MASTER_ADDR=" + NetworkPair::address(0),
                         "MASTER_PORT=" + std::to_string(29500 + on_each),
                         std::string("LOCKSTEP_HOST_ID=") + (host == 0 ? "left" : "right")};
    ranks.push_back(std::make_unique<RunningProgram>(network.on_host(host, command), options));
  }
  return ranks;
}

}  // namespace lockstep::test
