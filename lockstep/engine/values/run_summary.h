// The end of a run as a value: summary.json.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/engine/values/step_report.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::engine {

struct RunSummary {
  std::string status = "done";      // done | stopped | failed
  std::string config_hash;          // of the configuration that was run; empty = not known
  std::int64_t steps = 0;           // of the whole run
  std::int64_t first_step = 1;      // of this process: what a checkpoint held was not trained here
  std::int64_t steps_this_run = 0;  // times, rates and bytes are over these
  std::int64_t skipped_steps = 0;   // of the whole run: not finite, no update
  double final_loss = 0;
  std::optional<EvalReport> eval;
  bool counts_tokens = false;
  double samples_or_tokens_per_s = 0;  // over all ranks, training steps only
  double train_s = 0;                  // from the first step's start to the last one's end
  double mfu = 0;                      // model FLOPs a second / measured matmul rate; 0 = unknown
  PhaseTimes mean_times;               // of a step, over ranks and steps (first step left out)
  std::vector<PhaseTimes> per_rank;    // the same of each rank
  std::vector<std::string> hosts;      // of each rank; empty = not known
  std::optional<int> straggler;        // a rank that the others waited for throughout the run
  std::optional<GradientCheckReport> gradient_check;    // the worst of all
  std::optional<parallel::ParameterUse> parameter_use;  // the last news; unset = all were used
  std::vector<std::int64_t> peak_memory_bytes;          // per rank
  parallel::MemoryPlan planned;
  parallel::MemoryPlan measured;  // of the fullest rank
  double planned_step_s = 0;
  double measured_step_s = 0;           // median
  std::int64_t planned_comm_bytes = 0;  // a rank and step
  std::int64_t measured_comm_bytes = 0;
  std::string parameters_sha256;
  std::string state_sha256;
  std::string run_dir;
};

[[nodiscard]] std::string to_json_text(const RunSummary& summary);
/// \throws BadData.
[[nodiscard]] RunSummary summary_from_json_text(const std::string& json);

}  // namespace lockstep::engine
