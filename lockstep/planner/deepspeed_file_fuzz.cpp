// Fuzz target: whatever the bytes, a ds_config.json gives a layout that it agrees with and a file
// without the "auto" that were filled, or all that is wrong with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/planner/deepspeed_fill.h"
#include "lockstep/planner/deepspeed_plan.h"
#include "tests/fuzz/verdict.h"

namespace {

namespace planner = lockstep::planner;
namespace parallel = lockstep::parallel;

/// A small model on four devices.
const planner::ClusterJob& small_job() {
  static const planner::ClusterJob job = [] {
    planner::ClusterJob small;
    small.architecture = lockstep::model::known_model("gpt2").architecture;
    small.architecture.layers = 1;
    small.model = lockstep::model::architecture_stats(small.architecture, 0);
    small.layout.data = 4;
    small.machine = lockstep::usual_machine(*lockstep::find_device("V100-16G"), 4);
    return small;
  }();
  return job;
}

void check(const planner::ClusterJob& job) {
  const planner::DeepSpeedFile& file = job.deepspeed->file;
  const parallel::Layout& layout = job.layout;
  LOCKSTEP_CHECK(layout.zero >= 0 && layout.zero <= 3, "a stage that is none");
  LOCKSTEP_CHECK(layout.micro_batch >= 1 && layout.accumulation >= 1, "a batch of none");
  LOCKSTEP_CHECK(file.train_batch.or_else(layout.global_batch()) == layout.global_batch() &&
                     file.micro_batch.or_else(layout.micro_batch) == layout.micro_batch &&
                     file.accumulation.or_else(layout.accumulation) == layout.accumulation,
                 "another batch than the file's");
  LOCKSTEP_CHECK(planner::plan_cluster(job).memory.device.total() > 0, "a plan of nothing");
  const planner::FilledDeepSpeed filled = planner::fill_deepspeed(job, 10);
  LOCKSTEP_CHECK(filled.keys.size() == file.automatic.size(), "an \"auto\" that nobody speaks of");
  (void)planner::read_deepspeed_file(filled.config, "filled");  // throws where it cannot be read
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  planner::ClusterJob job = small_job();
  try {
    job.deepspeed = planner::DeepSpeedChoice{planner::read_deepspeed_file(text, "ds.json"), {}};
  } catch (const lockstep::UsageError& error) {
    LOCKSTEP_CHECK(!error.problems().empty(), "refused without a reason");
    return 0;
  }
  const bool half = job.deepspeed->file.fp16.or_else(false);
  job.recipe = parallel::find_recipe(half ? "fp16" : "bf16");
  planner::put_deepspeed_states(job, /*recompute_is_said=*/false);
  if (!planner::settle_deepspeed(job, {}).empty()) return 0;
  check(job);
  lockstep::fuzz::accepted = true;
  return 0;
}
