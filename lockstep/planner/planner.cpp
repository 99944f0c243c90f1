#include "lockstep/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/config/batch_shape.h"
#include "lockstep/model/stats/described_model.h"
#include "lockstep/parallel/cost/strategy_cost.h"
#include "lockstep/planner/batch_cuts.h"

namespace lockstep::planner {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr std::int64_t kLargestBucketBytes = std::int64_t{25} << 20;
constexpr std::int64_t kBucketsAtLeast = 8;  // of a large model: overlap needs several
constexpr std::int64_t kLastBucketBytes = std::int64_t{2} << 20;

void append(std::vector<Problem>& problems, std::vector<Problem> more) {
  problems.insert(problems.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

std::int64_t mib_to_bytes(double mib) { return std::llround(mib * kMib); }

void set_buckets(const config::ParallelSection& config, std::int64_t parameters,
                 parallel::ParallelPlan& plan) {
  const std::int64_t gradient_bytes = (Saturated(parameters) * 4).value();
  const std::int64_t cap = std::min(kLargestBucketBytes, gradient_bytes / kBucketsAtLeast);
  plan.bucket_bytes =
      std::max<std::int64_t>(1, config.bucket_mib > 0 ? mib_to_bytes(config.bucket_mib) : cap);
  plan.first_bucket_bytes = std::max<std::int64_t>(1, mib_to_bytes(config.first_bucket_mib));
  plan.last_bucket_bytes = kLastBucketBytes;
}

/// The rows of the strategy table that a plan uses, in its order.
std::vector<const parallel::StrategyCost*> rows_of(const parallel::ParallelPlan& plan) {
  std::vector<const parallel::StrategyCost*> rows;
  for (const std::string& name : plan.strategies) {
    for (const parallel::StrategyCost& row : parallel::strategy_costs()) {
      if (row.name == name) rows.push_back(&row);
    }
  }
  LOCKSTEP_CHECK(rows.size() == plan.strategies.size(), "a plan names a strategy without a row");
  return rows;
}

parallel::ParallelPlan plan_as_written(const config::RunConfig& config, const Host& host,
                                       int world_size, std::int64_t data_bytes) {
  config::BatchShapeResult batch = config::settle_batch(config, world_size);
  std::vector<Problem> problems = std::move(batch.problems);
  std::vector<Problem> model_problems = model::check_model(config.model);
  append(model_problems, model::check_trainable(config.model));
  const model::ModelStats model = model_problems.empty()
                                      ? model::model_stats(config.model, config.data.seq_len)
                                      : model::ModelStats{};
  append(problems, std::move(model_problems));
  parallel::ParallelPlan plan;
  plan.strategies = {"data_parallel"};
  if (config.parallel.sync_batch_norm) plan.strategies.emplace_back("sync_batch_norm");
  plan.degree = {1, world_size, 1};
  plan.batch = batch.shape;
  set_buckets(config.parallel, model.parameters(), plan);
  const parallel::Setting setting{config, model, host, world_size, data_bytes};
  const auto rows = rows_of(plan);
  for (const parallel::StrategyCost* row : rows) append(problems, row->check(setting));
  if (!problems.empty()) throw UsageError(std::move(problems));
  for (const parallel::StrategyCost* row : rows) row->estimate(setting, plan);
  return plan;
}

}  // namespace

parallel::ParallelPlan make_plan(const config::RunConfig& config, const Host& host, int world_size,
                                 std::int64_t data_bytes) {
  parallel::ParallelPlan plan = plan_as_written(config, host, world_size, data_bytes);
  if (!config.batch.finds_micro_batch) return plan;
  return batch_cuts(config, host, world_size, data_bytes).cuts.front();
}

}  // namespace lockstep::planner
