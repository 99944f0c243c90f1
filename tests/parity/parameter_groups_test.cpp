// The groups of parameters that a plan tells are those that the update makes of the tensors.
#include <gtest/gtest.h>

#include "lockstep/model/model.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/planner/planner.h"

namespace lockstep {
namespace {

config::RunConfig decaying_matrices(config::Family family) {
  config::RunConfig config;
  config.model.family = family;
  config.model.width = 48;
  config.data.seq_len = 16;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.decay = config::Decay::matrices;
  return config;
}

TEST(ParameterGroups, OfThePlanAreThoseOfTheUpdateInEveryFamily) {
  const auto group = comm::make_gloo_group({});
  Host host;
  host.cores = 1;
  for (const auto family : {config::Family::mlp, config::Family::resnet, config::Family::gpt}) {
    const config::RunConfig config = decaying_matrices(family);
    const auto model = model::make_model(config.model, config.data.seq_len, 1);
    parallel::DataParallelOptions options;
    options.optimizer = config.optimizer;
    parallel::DataParallel replica(model::named_parameters(*model), model::named_buffers(*model),
                                   *group, options);
    const parallel::ParallelPlan plan = planner::make_plan(config, host, 1, 0);
    EXPECT_EQ(replica.groups(), plan.groups) << parallel::to_text(plan.groups);
    EXPECT_GT(plan.groups.at(0).parameters, 0);
    EXPECT_GT(plan.groups.at(1).parameters, 0);
  }
}

}  // namespace
}  // namespace lockstep
