#include "lockstep/planner/step_events.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::PipelineSchedule;
using parallel::StageTime;

Layout pipeline_of(int stages, std::int64_t micro_batches, PipelineSchedule schedule,
                   int chunks = 1) {
  Layout layout;
  layout.pipeline = stages;
  layout.accumulation = micro_batches;
  layout.schedule = schedule;
  layout.chunks = chunks;
  return layout;
}

std::vector<StageTime> equal(int stages) {
  return std::vector<StageTime>(static_cast<std::size_t>(stages), {1, 2, 0});
}

TEST(StepEvents, OfEqualStagesWaitForThePapersShare) {
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    const StepEvents step = simulate_pipeline(equal(4), pipeline_of(4, 16, schedule));
    EXPECT_NEAR(step.pipeline_s, 3 * (16 + 3), 1e-9);
    EXPECT_EQ(step.events.size(), 2U * 4 * 16);
  }
  const StepEvents step =
      simulate_pipeline(equal(4), pipeline_of(4, 16, PipelineSchedule::interleaved, 2));
  EXPECT_NEAR(step.pipeline_s, 3 * (16 + 3.0 / 2), 1e-9);
}

TEST(StepEvents, ComputeEveryPieceOnceInAnOrderThatIsPossible) {
  const Layout layout = pipeline_of(3, 7, PipelineSchedule::interleaved, 2);  // 7 = 3 + 3 + 1
  const StepEvents step = simulate_pipeline(equal(3), layout);
  ASSERT_EQ(step.events.size(), 2U * 3 * 2 * 7);
  std::map<std::pair<int, std::int64_t>, double> forward_end;
  for (const StepEvent& event : step.events) {
    const auto key = std::pair(event.chunk * 3 + event.stage, event.micro_batch);
    if (!event.backward) {
      EXPECT_TRUE(forward_end.emplace(key, event.end_s).second);
    } else {
      EXPECT_GE(event.begin_s, forward_end.at(key));
    }
  }
}

TEST(StepEvents, TheSlowestStageSetsThePaceAsTheClosedFormSays) {
  std::vector<StageTime> stages = equal(4);
  stages[1] = {2, 4, 0.5};
  const StepEvents step =
      simulate_pipeline(stages, pipeline_of(4, 32, PipelineSchedule::one_f_one_b));
  // 32 of the slowest and one of each other.
  EXPECT_NEAR(step.pipeline_s, 32 * 6.5 + 3 * 3, 0.05 * step.pipeline_s);
  EXPECT_NEAR(step.busy_s, 32 * 6.5, 1e-9);
}

TEST(StepEvents, AgreeWithTheClosedFormForGpt3OnAHundredThousandDevices) {
  const auto stats = model::architecture_stats(model::known_model("gpt-3-175b").architecture, 2048);
  Layout layout = pipeline_of(16, 64, PipelineSchedule::interleaved, 6);
  layout.tensor = 8;
  layout.data = 782;
  layout.recompute = parallel::Recompute::full;
  const auto runs = parallel::block_runs(stats);
  const auto& recipe = *parallel::find_recipe("bf16");
  const Machine machine = usual_machine(*find_device("H100-80G"), layout.devices());
  const auto& stack = *parallel::find_stack("Megatron-Core 0.8");
  ASSERT_GT(layout.devices(), 100'000);
  const StepEvents step =
      simulate_pipeline(parallel::stage_times(runs, layout, recipe, machine, stack), layout);
  const auto time = parallel::predict_time(stats, layout, recipe, machine, stack);
  const double closed = time.step_s - time.exposed_data_comm_s - time.optimizer_s;
  EXPECT_NEAR(step.pipeline_s / closed, 1, 0.03);
  const auto trace =
      nlohmann::json::parse(chrome_trace(step, time, layout.devices() / layout.pipeline));
  EXPECT_EQ(trace.at("traceEvents").size(), step.events.size() + 3U * 16);
}

}  // namespace
}  // namespace lockstep::planner
