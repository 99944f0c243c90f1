// The command line of a rank, as the front or a foreign launcher's wrapper gives it.
#pragma once
#include <string>
#include <vector>

namespace lockstep::worker {

struct RankArgs {
  std::string job_name;                   // "train", "bench-comm"
  std::string job_file;                   // --job: written by the front
  std::string config_file;                // RUN.toml, when no front was there
  std::vector<std::string> sets;          // --set
  std::string run_dir;                    // --run-dir
  std::string resume = "auto";            // --resume
  std::vector<std::string> allow_change;  // --allow-change
  bool json = false;                      // errors as JSON
  bool quiet = false;
  bool color = true;
};

/// \throws UsageError with every fault.
[[nodiscard]] RankArgs parse_rank_args(const std::vector<std::string>& args);

}  // namespace lockstep::worker
