// The flight files of all ranks of a job, looked at together.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/records/flight_verdict.h"

namespace lockstep::comm {

/// RUN_DIR/flight/rank-<rank>.ring
[[nodiscard]] std::filesystem::path flight_file(const std::filesystem::path& run_dir, int rank);

struct FlightFolder {
  std::vector<RankView> views;     // in order of rank
  std::vector<std::string> notes;  // files that cannot be read, and why
};

/// Reads the files of the newest job in `folder` (RUN_DIR/flight); those of jobs before are passed
/// over. Stops reading after `limit`.
[[nodiscard]] FlightFolder look_at_folder(
    const std::filesystem::path& folder,
    std::chrono::milliseconds limit = std::chrono::seconds(10));

/// For the error of a rank whose collective failed: the verdict over this rank and what the others
/// left beside its file, within a quarter of a second. Empty when there is nothing to say.
[[nodiscard]] std::string verdict_beside(const FlightRecorder& own);

}  // namespace lockstep::comm
