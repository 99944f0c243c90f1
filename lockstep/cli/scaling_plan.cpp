#include "lockstep/cli/scaling_plan.h"

#include <algorithm>
#include <charconv>

#include "lockstep/base/error.h"
#include "lockstep/config/batch_shape.h"
#include "lockstep/launch/local_job.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void refuse_counts(const std::string& text) {
  throw UsageError(
      {{"LS-1013", "--ranks", "'" + text.substr(0, 128) + "' is no list of rank counts",
        "give different counts from 1 to " + std::to_string(launch::kMostRanksOfAHost) +
            ", as in --ranks 1,2,4"}});
}

/// The micro-batch of a rank when the configuration runs as it was written.
config::BatchShape shape_as_written(const config::RunConfig& config) {
  const config::BatchShapeResult result =
      config::settle_batch(config, config.parallel.data.value_or(1));
  if (!result.problems.empty()) throw UsageError(result.problems);
  return result.shape;
}

void keep_work_of_a_rank(config::RunConfig& config, int ranks) {
  const std::int64_t accumulation = config.batch.accumulation.value_or(1);
  if (!config.batch.micro_batch) config.batch.micro_batch = shape_as_written(config).micro_batch;
  config.batch.accumulation = accumulation;
  config.batch.global_batch.reset();
  if (config.parallel.virtual_ranks) {
    config.parallel.virtual_ranks = static_cast<int>(accumulation * ranks);
  }
}

/// Smaller micro-batches where a rank's part of the batch is smaller than one.
void keep_global_batch(config::RunConfig& config, int ranks) {
  if (!config.batch.global_batch) config.batch.global_batch = shape_as_written(config).global_batch;
  if (config.parallel.virtual_ranks) return;
  const std::int64_t of_a_rank = std::max<std::int64_t>(1, *config.batch.global_batch / ranks);
  config.batch.micro_batch = std::min(config.batch.micro_batch.value_or(of_a_rank), of_a_rank);
  config.batch.accumulation.reset();
}

}  // namespace

std::vector<int> parse_rank_counts(const std::string& text) {
  std::vector<int> counts;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc{} || count < 1 || count > launch::kMostRanksOfAHost) refuse_counts(text);
    counts.push_back(count);
    at = stop;
    if (at == end) break;
    if (*at != ',') refuse_counts(text);
  }
  std::sort(counts.begin(), counts.end());
  if (std::adjacent_find(counts.begin(), counts.end()) != counts.end()) refuse_counts(text);
  return counts;
}

config::RunConfig scaling_config(const config::RunConfig& config, int ranks,
                                 metrics::Scaling scaling, const ScalingSteps& steps) {
  config::RunConfig measured = config;
  if (scaling == metrics::Scaling::weak) {
    keep_work_of_a_rank(measured, ranks);
  } else {
    keep_global_batch(measured, ranks);
  }
  measured.parallel.data = ranks;
  measured.run.steps = steps.warmup + steps.measured;
  measured.run.epochs.reset();
  measured.run.eval_every = 0;
  measured.data.eval.clear();
  measured.data.eval_samples = 0;
  measured.data.eval_fraction = 0;
  measured.checkpoint.every = 0;
  measured.checkpoint.dir.clear();  // what lies there is of the run that is measured
  measured.schedule.scale_lr_with_batch = 0;
  return measured;
}

}  // namespace lockstep::cli
