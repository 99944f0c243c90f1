// What a rank finds in its environment: the variables torchrun 2.11 sets, so that programs written
// for torchrun run unchanged.
#pragma once
#include <string>
#include <vector>

#include "lockstep/launch/local_job.h"

namespace lockstep::launch {

struct RankPlace {
  int local_rank = 0;
  int store_port = 0;
  int report_fd = -1;                  // of the rank; -1 = it does not report
  std::string error_file;              // TORCHELASTIC_ERROR_FILE; empty = not set
  std::vector<std::string> variables;  // of this rank alone, "KEY=value"
};

/// `inherited` ("KEY=value" each) with the job's own variables in place of its own; extra_env and
/// place.variables win. \returns "KEY=value", each key once.
[[nodiscard]] std::vector<std::string> rank_environment(const LocalJobOptions& options,
                                                        const RankPlace& place,
                                                        const std::vector<std::string>& inherited);

}  // namespace lockstep::launch
