#include "lockstep/parallel/cost/pipeline_time.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

Layout layout_of(PipelineSchedule schedule, std::int64_t micro_batches, int chunks = 1) {
  Layout layout;
  layout.schedule = schedule;
  layout.accumulation = micro_batches;
  layout.chunks = chunks;
  return layout;
}

TEST(PipelineTime, OfEqualStagesIsThePapersShare) {
  const std::vector<PassTime> stages(4, {1, 2});
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(schedule, 16)), 3 * (16 + 3));
  }
  EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(PipelineSchedule::interleaved, 16, 2)),
                   3 * (16 + 3.0 / 2));
  EXPECT_DOUBLE_EQ(pipeline_time({{1, 2}}, layout_of(PipelineSchedule::none, 5)), 15);
}

TEST(PipelineTime, OfASlowLastStageWaitsForAllOthersOnce) {
  const std::vector<PassTime> stages{{1, 2}, {1, 2}, {3, 6}};
  EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(PipelineSchedule::one_f_one_b, 8)),
                   8 * 9 + 2 * 3);
}

TEST(PipelineTime, OfASlowFirstStageHidesTheOthersBehindItsOwnMicroBatches) {
  // Two micro-batches more are under way while the first goes through the others and back.
  const std::vector<PassTime> stages{{3, 6}, {1, 2}, {1, 2}};
  EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(PipelineSchedule::one_f_one_b, 8)), 8 * 9);
  EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(PipelineSchedule::one_f_one_b, 1)), 9 + 6);
}

TEST(PipelineTime, OfGPipeAddsUpTheSlowestForwardAndTheSlowestBackward) {
  const std::vector<PassTime> stages{{3, 1}, {1, 5}};
  EXPECT_DOUBLE_EQ(pipeline_time(stages, layout_of(PipelineSchedule::gpipe, 10)), 10 + 9 * (3 + 5));
}

}  // namespace
}  // namespace lockstep::parallel
