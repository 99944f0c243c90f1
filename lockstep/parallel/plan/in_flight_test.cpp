#include "lockstep/parallel/plan/in_flight.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::parallel {
namespace {

using Held = std::vector<std::int64_t>;

Layout pipeline(PipelineSchedule schedule, int stages, std::int64_t micro_batches, int chunks = 1) {
  Layout layout;
  layout.pipeline = stages;
  layout.schedule = schedule;
  layout.accumulation = micro_batches;
  layout.chunks = chunks;
  return layout;
}

TEST(InFlight, IsEveryMicroBatchInGpipe) {
  EXPECT_EQ(in_flight(pipeline(PipelineSchedule::gpipe, 4, 10), 3), Held{10});
}

TEST(InFlight, IsTheStagesBelowInOneForwardOneBackward) {
  const Layout layout = pipeline(PipelineSchedule::one_f_one_b, 4, 10);
  EXPECT_EQ(in_flight(layout, 0), Held{4});
  EXPECT_EQ(in_flight(layout, 3), Held{1});
  EXPECT_EQ(in_flight(pipeline(PipelineSchedule::one_f_one_b, 4, 2), 0), Held{2});
}

TEST(InFlight, GrowsByTheRoundThatIsBegunWhenInterleaved) {
  const Layout layout = pipeline(PipelineSchedule::interleaved, 8, 64, 3);
  // 1 + (p - 1) / (p v) of 24 chunks.
  EXPECT_EQ(in_flight(layout, 0), (Held{15, 8, 8}));
  const Held last = in_flight(layout, 7);
  EXPECT_EQ(std::accumulate(last.begin(), last.end(), std::int64_t{0}), 17);
  EXPECT_EQ(in_flight(pipeline(PipelineSchedule::interleaved, 8, 8, 3), 0), (Held{8, 8, 8}));
}

TEST(InFlight, IsOneWithoutAPipeline) {
  EXPECT_EQ(in_flight(pipeline(PipelineSchedule::none, 1, 32), 0), Held{1});
}

}  // namespace
}  // namespace lockstep::parallel
