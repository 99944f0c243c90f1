#include "lockstep/worker/flight_file.h"

#include <cstdint>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_folder.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::worker {

std::string keep_flight(comm::FlightRecorder& flight, const std::string& run_dir,
                        comm::Group& world) {
  std::random_device random;
  const std::uint64_t drawn = std::uint64_t{random()} << 32U | random();
  const comm::Purpose purpose("the number of the job");
  const std::string job = comm::broadcast_text(world, std::to_string(drawn), index(kPrintingRank));
  try {
    flight.persist(comm::flight_file(run_dir, world.rank()), std::stoull(job));
    return "";
  } catch (const EnvironmentFault& fault) {
    const Problem& problem = fault.problems().front();
    return problem.where + ": " + problem.what + "; `lockstep doctor watch` will not see this run";
  }
}

}  // namespace lockstep::worker
