#include "lockstep/parallel/strategies/data_parallel.h"

#include <cmath>

#include "lockstep/parallel/plan/powersgd_rule.h"

namespace lockstep::parallel {
namespace {

/// Samples or tokens of a full global batch.
std::int64_t batch_weight(const BuildSetting& setting) {
  const model::ModelStats stats =
      model::model_stats(setting.config.model, setting.config.data.seq_len);
  return setting.plan.batch.global_batch * stats.tokens_per_sample;
}

}  // namespace

void apply_data_parallel(const BuildSetting& setting, SessionParts& parts) {
  const ParallelPlan& plan = setting.plan;
  DataParallelOptions options;
  options.optimizer = setting.config.optimizer;
  options.compute = setting.config.precision.compute;
  options.loss_scale.fixed = setting.config.precision.loss_scale;
  options.loss_scale.batch_weight = batch_weight(setting);
  options.reducer.sizes = {plan.first_bucket_bytes, plan.bucket_bytes, plan.last_bucket_bytes};
  options.local = {setting.config.parallel.local_steps, setting.config.parallel.local_steps_from};
  options.reducer.exchange = plan.exchange;
  options.reducer.exchange_weight = std::exp2(std::ceil(std::log2(batch_weight(setting))));
  options.reducer.powersgd_rank = setting.config.parallel.powersgd_rank;
  options.reducer.powersgd_from = powersgd_from(setting.config);
  options.reducer.seed = static_cast<std::uint64_t>(setting.config.run.seed);
  options.reducer.ordered = plan.batch.ordered;
  options.reducer.leaves = plan.batch.leaves_per_rank();
  options.reducer.static_graph = setting.config.parallel.static_graph;
  parts.replica = std::make_unique<DataParallel>(model::named_parameters(*parts.model),
                                                 model::named_buffers(*parts.model),
                                                 setting.groups.data, options);
}

}  // namespace lockstep::parallel
