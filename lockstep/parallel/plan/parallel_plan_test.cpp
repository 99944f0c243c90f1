#include "lockstep/parallel/plan/parallel_plan.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

ParallelPlan some_plan() {
  ParallelPlan plan;
  plan.strategies = {"data_parallel"};
  plan.degree = {1, 4, 1};
  plan.batch = {128, 16, 2, 4, 8, true};
  plan.first_bucket_bytes = 1;
  plan.bucket_bytes = 2;
  plan.last_bucket_bytes = 3;
  plan.memory = {10, 20, 30, 40, 50, 60, 70};
  plan.comm_bytes_per_step = (std::int64_t{1} << 53) + 1;
  plan.step_s = 0.1;
  plan.exposed_comm_s = 1.0 / 3;
  plan.forward_s = 1e-9;
  plan.backward_s = 2;
  plan.optimizer_s = 0.7;
  plan.compute = "fp16";
  plan.groups = {{"no decay", 0, 1, 3, 10}, {"others", 0.1, 0.5, 2, 400}};
  return plan;
}

TEST(ParallelPlan, SurvivesTheTripThroughJsonToTheLastBit) {
  const ParallelPlan plan = some_plan();
  const ParallelPlan back = plan_from_json_text(to_json_text(plan));
  EXPECT_EQ(to_json_text(back), to_json_text(plan));
  EXPECT_EQ(back.strategies, plan.strategies);
  EXPECT_EQ(back.degree, plan.degree);
  EXPECT_EQ(back.batch.leaves, 8);
  EXPECT_TRUE(back.batch.ordered);
  EXPECT_EQ(back.memory.total(), 280);
  EXPECT_EQ(back.comm_bytes_per_step, plan.comm_bytes_per_step);
  EXPECT_EQ(back.exposed_comm_s, plan.exposed_comm_s);
  EXPECT_EQ(back.forward_s, plan.forward_s);
  EXPECT_EQ(back.compute, plan.compute);
  EXPECT_EQ(back.groups, plan.groups);
}

TEST(ParallelPlan, RefusesTextThatIsNotAPlan) {
  for (const char* text : {"", "{", "[]", "null", "{}", "{\"strategies\":3}"}) {
    EXPECT_THROW((void)plan_from_json_text(text), BadData) << text;
  }
  std::string cut = to_json_text(some_plan());
  cut.resize(cut.size() / 2);
  EXPECT_THROW((void)plan_from_json_text(cut), BadData);
}

TEST(ParallelPlan, NamesTheMissingKey) {
  std::string text = to_json_text(some_plan());
  text.replace(text.find("micro_batch"), 11, "macro_batch");
  try {
    (void)plan_from_json_text(text);
    FAIL() << "a plan without micro_batch was accepted";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems().at(0).code, "LS-6011");
    EXPECT_NE(error.problems().at(0).what.find("micro_batch"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::parallel
