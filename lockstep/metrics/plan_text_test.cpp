#include "lockstep/metrics/plan_text.h"

#include <gtest/gtest.h>

#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

TEST(PlanText, SaysWhatRunsWhereInAFewLines) {
  EXPECT_EQ(plan_text(sample::plan(), "resnet20", 80, {}),
            "plan  resnet20\n"
            "  layout  data_parallel on 2 ranks\n"
            "  batch   128 samples a step = 2 ranks × 64\n"
            "  memory  419 MB a rank: activations 301 MB, runtime 98.0 MB, buffers 12.0 MB\n"
            "  sends   1.09 MB a rank and step\n");
}

TEST(PlanText, NamesAccumulationVirtualRanksAndThePredictedStep) {
  auto plan = sample::plan();
  plan.batch = {256, 32, 4, 2, 8, true};
  plan.step_s = 0.095;
  plan.forward_s = 0.033;
  plan.backward_s = 0.055;
  plan.optimizer_s = 0.002;
  plan.exposed_comm_s = 0.005;
  const std::string text = plan_text(plan, "r", 60, {false, false});
  EXPECT_NE(text.find("on 2 ranks,\n          sums over 8 virtual ranks in fixed order\n"),
            std::string::npos);
  EXPECT_NE(text.find("256 samples a step = 2 ranks x 32 x 4 accumulated\n"), std::string::npos);
  EXPECT_NE(text.find("95.0 ms: forward 33.0 ms, backward 55.0 ms,\n"
                      "          exposed sync 5.00 ms, optimizer 2.00 ms\n"),
            std::string::npos);
}

TEST(PlanText, TellsWhatFp16ComputesWithAndTheGroupsOfParameters) {
  auto plan = sample::plan();
  plan.compute = "fp16 beside fp32 masters, dynamic loss scale";
  plan.groups = {{"no decay", 0, 1, 50, 30'720}, {"others", 0.1, 1, 1, 4096}};
  const std::string text = plan_text(plan, "r", 80, {});
  EXPECT_NE(text.find("  compute fp16 beside fp32 masters, dynamic loss scale\n"
                      "  groups  no decay: 50 parameters (30,720 elements),\n"
                      "          weight decay 0; others: 1 parameter (4,096 elements), "
                      "weight decay 0.1\n"),
            std::string::npos)
      << text;
}

TEST(PlanText, APlanOfOneDeviceHasNothingToSay) {
  EXPECT_EQ(
      plan_text({}, "x\x1b[2J", 80, {}),
      "plan  x [2J\n  layout  one device on 1 rank\n  batch   0 samples a step = 1 rank × 0\n");
}

}  // namespace
}  // namespace lockstep::metrics
