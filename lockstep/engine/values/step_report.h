// What one step did, as a value: a line of events.jsonl, and what the console draws.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/plan/not_finite.h"
#include "lockstep/parallel/plan/parameter_use.h"

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

/// One bucket of gradients in a step. Times are seconds from the begin of the step.
struct BucketReport {
  std::string name;        // "bucket 4: layer3.0.conv1.weight .. layer3.1.bn2.bias"
  std::int64_t bytes = 0;  // handed to the exchange by this rank
  double ready_s = 0;      // its last gradient was there: what comes before is computing
  double issued_s = 0;     // this rank entered the exchange
  double done_s = 0;       // it was over: every rank had entered, and the sum had come
  double wait_s = 0;       // for which this rank waited with nothing else to do
};

/// The summed gradients of a step against those of its global batch computed by one rank alone.
struct GradientCheckReport {
  double worst_relative = 0;  // |difference| / |gradient|, L2 norms, of the worst parameter
  std::string parameter;      // that one
  double tolerance = 0;       // what rounding explains; 0 = compression makes any difference
  bool passed = true;
  std::int64_t parts = 1;  // that the batch was cut into; 1 = none
  std::string cut_for;     // "dropout or batch statistics", "time"; empty = uncut
  /// The same to the micro-batches one by one: looked at when an uncut batch differs by more than
  /// the tolerance, which activations rounded in another way may explain.
  std::optional<double> micro_batches_relative;
  double check_s = 0;  // in no phase and no step_s
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
  std::int64_t comm_bytes = 0;                          // payload of this rank in this step
  bool skipped = false;                                 // non-finite: no update was made
  std::optional<double> loss_scale;                     // that this step had; only in fp16
  std::optional<parallel::NotFinite> not_finite;        // of a skipped step; only in fp16
  std::string warning;                                  // for people; empty = none
  std::vector<BucketReport> buckets;                    // of the printing rank; empty with one rank
  std::optional<GradientCheckReport> gradient_check;    // when one was due in this step
  std::optional<parallel::ParameterUse> parameter_use;  // when there is news of it
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
