// What one step did, as a value: a line of events.jsonl, and what the console draws.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::engine {

/// Where the time of a step went, in seconds. sync_s is exposed waiting, not time on the wire.
struct PhaseTimes {
  double step_s = 0;
  double data_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double sync_s = 0;
  double optimizer_s = 0;
};

struct StepReport {
  std::int64_t step = 0;  // 1 after the first update; of a skipped step: the update not made
  std::int64_t total_steps = 0;
  double epoch = 0;  // epochs done, with fraction
  double loss = 0;   // mean over the global batch, nats
  double lr = 0;
  std::optional<double>
      grad_norm;             // of the mean gradient, before clipping; only when clipping is on
  std::int64_t samples = 0;  // of this step, over all ranks
  std::int64_t tokens = 0;   // 0 unless the model counts tokens
  PhaseTimes times;          // of the printing rank
  std::vector<PhaseTimes> per_rank;  // one per data-parallel rank, of the step before this one
  std::int64_t peak_rss_bytes = 0;
  std::int64_t comm_bytes = 0;  // payload of this rank in this step
  bool skipped = false;         // non-finite: no update was made
};

/// Means over a whole evaluation set, each sample counted once.
struct EvalReport {
  std::int64_t step = 0;
  double loss = 0;      // nats a sample or token
  double accuracy = 0;  // fraction of 1
  std::optional<double> bits_per_byte;
  std::int64_t weight = 0;  // samples or tokens
  double eval_s = 0;
};

[[nodiscard]] std::string to_json_text(const StepReport& report);  // one line, keys of docs/cli.md
[[nodiscard]] std::string to_json_text(const EvalReport& report);  // {"eval":{...}}

/// \throws BadData when the line is not a report.
[[nodiscard]] StepReport step_report_from_json(const std::string& line);
[[nodiscard]] EvalReport eval_report_from_json(const std::string& line);

}  // namespace lockstep::engine
