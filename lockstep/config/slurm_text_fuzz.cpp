// Any bytes as Slurm's node list and tasks per node: a bounded list of host names or nothing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/config/slurm_text.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace config = lockstep::config;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  if (const auto hosts = config::slurm_hosts(text)) {
    lockstep::fuzz::accepted = true;
    LOCKSTEP_CHECK(!hosts->empty() && hosts->size() <= config::kMostSlurmHosts, "a list of none");
    LOCKSTEP_CHECK(hosts->front() == config::first_slurm_host(text), "two first hosts");
    for (const auto& host : *hosts) {
      LOCKSTEP_CHECK(!host.empty() && host.front() != '-' && host.find(' ') == host.npos,
                     "a host that is none");
    }
  }
  for (const int node : {0, 1, 1'000'000}) {
    const auto tasks = config::slurm_tasks_on_node(text, node);
    LOCKSTEP_CHECK(!tasks || *tasks > 0, "a node without tasks");
    if (tasks) lockstep::fuzz::accepted = true;
  }
  const int port = config::slurm_port(text);
  LOCKSTEP_CHECK(port >= 15000 && port < 25000, "a port outside its range");
  return 0;
}
