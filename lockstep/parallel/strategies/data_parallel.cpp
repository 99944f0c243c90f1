#include "lockstep/parallel/strategies/data_parallel.h"

namespace lockstep::parallel {

void apply_data_parallel(const BuildSetting& setting, SessionParts& parts) {
  const ParallelPlan& plan = setting.plan;
  DataParallelOptions options;
  options.optimizer = setting.config.optimizer;
  options.compute = setting.config.precision.compute;
  options.reducer.sizes = {plan.first_bucket_bytes, plan.bucket_bytes, plan.last_bucket_bytes};
  options.reducer.reduce = setting.config.precision.reduce;
  options.reducer.ordered = plan.batch.ordered;
  options.reducer.leaves = plan.batch.leaves / plan.batch.data_ranks;
  parts.replica = std::make_unique<DataParallel>(model::named_parameters(*parts.model),
                                                 model::named_buffers(*parts.model),
                                                 setting.groups.data, options);
}

}  // namespace lockstep::parallel
