#include "lockstep/parallel/cost/deepspeed_states.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

DeepSpeedQuestion question(double parameters, double largest_layer, int devices) {
  DeepSpeedQuestion q;
  q.parameters = parameters;
  q.largest_layer = largest_layer;
  q.devices_per_host = devices;
  return q;
}

DeepSpeedBytes offloading(DeepSpeedQuestion q, bool optimizer, bool parameters,
                          bool parted = true) {
  q.offload_optimizer = optimizer;
  q.offload_parameters = parameters;
  q.parted_from_start = parted;
  return deepspeed_states(q);
}

// deepspeedai/DeepSpeed#4527: the table it printed for 6805M parameters, largest layer 131M.
TEST(DeepSpeedStates, AreWhatItsEstimatorPrintedForSevenBillion) {
  const DeepSpeedQuestion q = question(6805e6, 131e6, 4);
  EXPECT_NEAR(offloading(q, true, true).device / kGib, 0.49, 0.01);
  EXPECT_NEAR(offloading(q, true, true).host / kGib, 171.12, 0.01);
  EXPECT_NEAR(offloading(q, true, false).device / kGib, 3.66, 0.01);
  EXPECT_NEAR(offloading(q, true, false).host / kGib, 152.10, 0.01);
  EXPECT_NEAR(offloading(q, false, false).device / kGib, 29.01, 0.01);
  EXPECT_NEAR(offloading(q, false, false).host / kGib, 2.93, 0.01);
  // Without zero.Init every process loads all of it: 4 x 4 B against 18.
  EXPECT_NEAR(offloading(q, false, false, false).host / kGib, 152.10, 0.01);
}

// DeepSpeed PR#965: T5-3B.
TEST(DeepSpeedStates, AreThoseOfItsDocumentsForT5) {
  const DeepSpeedQuestion q = question(2851e6, 32e6, 8);
  EXPECT_NEAR(offloading(q, true, true).device / kGib, 0.12, 0.02);
  EXPECT_NEAR(offloading(q, true, true).host / kGib, 71.71, 0.02);
  EXPECT_NEAR(offloading(q, true, false).device / kGib, 0.78, 0.02);
  EXPECT_NEAR(offloading(q, false, false).device / kGib, 6.09, 0.02);
}

TEST(DeepSpeedStates, OfStageTwoKeepTheWeightsWhole) {
  DeepSpeedQuestion q = question(1e9, 0, 8);
  q.stage = 2;
  q.hosts = 2;
  EXPECT_DOUBLE_EQ(deepspeed_states(q).device, 2e9 + 18e9 / 16);
  EXPECT_DOUBLE_EQ(deepspeed_states(q).host, 1.5 * 4e9 * 8);
  q.offload_optimizer = true;
  EXPECT_DOUBLE_EQ(deepspeed_states(q).device, 2e9);
  EXPECT_DOUBLE_EQ(deepspeed_states(q).host, 1.5 * 64e9);
}

}  // namespace
}  // namespace lockstep::parallel
