// Fuzz target: any bytes as --cluster and as a cluster file: a machine that can be planned on, or
// all that is wrong with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/planner/cluster_spec.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace planner = lockstep::planner;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  for (const planner::ReadCluster& read :
       {planner::read_cluster(text, "--cluster"), planner::read_cluster_file(text, "c.toml")}) {
    LOCKSTEP_CHECK(read.machine.has_value() == read.problems.empty(), "neither or both");
    if (!read.machine) continue;
    LOCKSTEP_CHECK(read.machine->devices >= 1 && read.machine->devices <= 1'000'000 &&
                       read.machine->devices_per_host >= 1 && !read.machine->device.name.empty() &&
                       read.machine->between.bytes_per_s() > 0,
                   "a machine that is none");
    lockstep::fuzz::accepted = true;
  }
  return 0;
}
