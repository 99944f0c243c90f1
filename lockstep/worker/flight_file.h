// Where a rank's flight recorder keeps its records.
#pragma once
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/comm/records/flight_recorder.h"

namespace lockstep::worker {

/// Collective. Moves the records to RUN_DIR/flight/rank-<rank>.ring, under a number that all ranks
/// of this job share. A run does not end for want of it. \returns what is wrong; empty when it is
/// kept.
[[nodiscard]] std::string keep_flight(comm::FlightRecorder& flight, const std::string& run_dir,
                                      comm::Group& world);

}  // namespace lockstep::worker
