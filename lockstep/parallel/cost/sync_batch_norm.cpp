#include "lockstep/parallel/cost/sync_batch_norm.h"

#include <string>

#include "lockstep/base/saturated.h"
#include "lockstep/comm/shm/standard_layout.h"
#include "lockstep/parallel/cost/run_time.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFp64Bytes = 8;  // statistics travel in fp64

}  // namespace

std::vector<Problem> check_sync_batch_norm(const Setting& setting) {
  const auto& virtual_ranks = setting.config.parallel.virtual_ranks;
  if (!virtual_ranks || *virtual_ranks <= setting.world_size) return {};
  const std::string ranks = std::to_string(*virtual_ranks);
  return {{"LS-6012", "parallel.sync_batch_norm",
           "virtual_ranks = " + ranks +
               " promises equal bits on any number of ranks, but statistics "
               "over all ranks depend on that number (" +
               std::to_string(setting.world_size) + ")",
           "start " + ranks + " ranks, or drop sync_batch_norm or virtual_ranks"}};
}

void estimate_sync_batch_norm(const Setting& setting, ParallelPlan& plan) {
  if (plan.batch.data_ranks == 1) return;
  Saturated layers;
  Saturated numbers;  // two a channel
  for (const model::BlockStats& block : setting.model.blocks) {
    layers += block.batch_norms;
    numbers += block.buffer_floats;
  }
  if (layers.value() == 0) return;  // the model has none
  const std::int64_t leaves = plan.batch.leaves_per_rank();
  // Forward sends them with a count, backward sends as many sums.
  const Saturated bytes = (numbers * 2 + layers) * kFp64Bytes * leaves;
  const auto ranks = static_cast<int>(plan.batch.data_ranks);
  const auto shared = static_cast<std::int64_t>(comm::shm::standard_layout(ranks).total_bytes());
  plan.memory.communication = (Saturated(plan.memory.communication) + shared).value();
  plan.comm_bytes_per_step = (Saturated(plan.comm_bytes_per_step) + bytes).value();
  const auto exchanges = static_cast<double>((layers * 2 * leaves).value());
  const double waits_s =
      exchanges * exchange_time(setting, static_cast<double>(bytes.value()) / exchanges);
  plan.exposed_comm_s += waits_s;
  plan.step_s += waits_s;
}

}  // namespace lockstep::parallel
