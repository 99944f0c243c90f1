#include "lockstep/planner/cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/gpt_of_size.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/planner/cluster_fit.h"

namespace lockstep::planner {
namespace {

using testing::Contains;
using testing::HasSubstr;

ClusterJob job_of(const model::Architecture& architecture, int data, int zero) {
  ClusterJob job;
  job.architecture = architecture;
  job.model = model::architecture_stats(architecture);
  job.recipe = parallel::find_recipe("bf16");
  job.layout.data = data;
  job.layout.zero = zero;
  job.machine = usual_machine(*find_device("A100-80G"), data);
  return job;
}

ClusterJob named(const char* name, int data, int zero) {
  return job_of(model::known_model(name).architecture, data, zero);
}

ClusterJob given(double parameters, int data, int zero) {
  ClusterJob job = job_of(model::gpt_of_size(parameters), data, zero);
  job.given_parameters = parameters;
  return job;
}

TEST(ClusterPlan, KeepsTheNumberOfParametersAsItWasGiven) {
  const ClusterJob job = given(6.7e9, 4, 3);
  EXPECT_NE(job.model.parameters(), 6'700'000'000);
  const ClusterPlan plan = plan_cluster(job);
  EXPECT_EQ(plan.parameters, 6.7e9);
  EXPECT_EQ(plan.memory.device.parameters, 3'350'000'000);
  EXPECT_EQ(plan.memory.device.optimizer, 20'100'000'000);
  EXPECT_GT(plan.memory.device.activations, 0);
}

TEST(ClusterPlan, SharesAGivenNumberEvenlyByTensorRanks) {
  ClusterJob job = given(16e9, 1, 0);
  job.layout.tensor = 4;
  EXPECT_DOUBLE_EQ(fullest_states(job).parameters, 2 * 4e9);
  job.layout.tensor = 1;
  job.layout.pipeline = 4;  // the first stage has the embedding too
  EXPECT_GT(fullest_states(job).parameters, 2 * 4e9);
  EXPECT_LT(fullest_states(job).parameters, 2 * 4.5e9);
}

TEST(ClusterPlan, EachHostOfATensorRanksGroupReadsItsSamples) {
  ClusterJob job = named("gpt2", 4, 0);
  job.layout.tensor = 16;
  job.layout.micro_batch = 32;
  job.machine->devices = 64;
  job.source.samples_per_s = 64;
  EXPECT_DOUBLE_EQ(plan_cluster(job).loading_s, 0.5) << "32 of 128 samples, not 16";
  job.layout.tensor = 1;
  job.layout.data = 12;
  job.machine->devices = 12;
  EXPECT_DOUBLE_EQ(plan_cluster(job).loading_s, 4) << "eight devices of twelve in the first host";
}

TEST(ClusterPlan, OfStatesAloneCountsNothingElseAndSaysSo) {
  ClusterJob job = named("gpt2-xl", 2, 1);
  job.states_only = true;
  const ClusterPlan plan = plan_cluster(job);
  EXPECT_EQ(
      plan.memory.device.total(),
      plan.memory.device.parameters + plan.memory.device.gradients + plan.memory.device.optimizer);
  EXPECT_FALSE(plan.time.has_value());
  EXPECT_THAT(plan.assumptions, Contains(HasSubstr("are left out")));
}

TEST(ClusterPlan, PredictsNoTimeOfAnUnknownDevice) {
  ClusterJob job = named("gpt2-xl", 2, 1);
  EXPECT_TRUE(plan_cluster(job).time.has_value());
  EXPECT_TRUE(plan_cluster(job).fits().has_value());
  EXPECT_GT(plan_cluster(job).tokens_per_s, 0);
  job.machine.reset();
  EXPECT_FALSE(plan_cluster(job).time.has_value());
  EXPECT_FALSE(plan_cluster(job).fits().has_value());
}

TEST(ClusterPlan, AloneHasOneDeviceAndTheSameMicroBatch) {
  ClusterJob job = named("llama-2-7b", 8, 3);
  job.layout.micro_batch = 2;
  job.layout.recompute = parallel::Recompute::full;
  const ClusterPlan alone = plan_alone(job);
  EXPECT_EQ(alone.memory.device.optimizer, 12 * job.model.parameters());
  EXPECT_EQ(alone.memory.device.activations, plan_cluster(job).memory.device.activations);
}

TEST(ClusterPlan, WaitsForDataThatHostsDoNotReadInTime) {
  ClusterJob job = named("resnet50", 8, 0);
  job.layout.micro_batch = 64;
  const ClusterPlan unknown = plan_cluster(job);
  EXPECT_THAT(unknown.assumptions, Contains(HasSubstr("of data a host (151 kB a sample)")));
  job.source.bytes_per_s = 100e9;
  EXPECT_EQ(plan_cluster(job).time->step_s, unknown.time->step_s) << "beside computing";
  job.source.bytes_per_s = 100e6;
  const ClusterPlan slow = plan_cluster(job);
  EXPECT_NEAR(slow.time->step_s, 512 * 150'530 / 100e6, 0.001);
  EXPECT_NEAR(slow.time->data_wait_s, slow.time->step_s - unknown.time->step_s, 1e-9);
  EXPECT_NEAR(slow.samples_per_s, 100e6 / 150'530, 1);
  EXPECT_THAT(slow.assumptions, Contains(HasSubstr("of a step wait for data")));
}

TEST(WaysToFit, AllFitAndNameWhatTheyChange) {
  const ClusterJob job = given(13e9, 2, 0);
  const FitAdvice advice = ways_to_fit(job);
  EXPECT_EQ(advice.devices_for_states, 3);
  ASSERT_FALSE(advice.ways.empty());
  for (const WayToFit& way : advice.ways) {
    EXPECT_LE(way.total_bytes, job.machine->device.memory_bytes) << way.flags;
    EXPECT_GE(way.total_bytes, 1) << way.flags;
    EXPECT_THAT(way.flags, HasSubstr("--"));
  }
}

TEST(WaysToFit, StartWithTheSmallestStep) {
  ClusterJob job = named("gpt2-xl", 1, 0);
  job.layout.micro_batch = 64;
  EXPECT_FALSE(plan_cluster(job).fits().value_or(true));
  EXPECT_EQ(ways_to_fit(job).ways.at(0).flags, "--micro-batch 1");
}

TEST(WaysToFit, AreNoneWhereNothingHelps) {
  ClusterJob job = given(1e13, 1, 0);
  job.layout.pipeline = 1;
  job.machine = usual_machine(*find_device("V100-16G"), 1);
  // One gathered layer alone is too large.
  EXPECT_TRUE(ways_to_fit(job).ways.empty());
  EXPECT_GT(ways_to_fit(job).devices_for_states, 9000);
}

TEST(WaysToFit, ShareAllOfAPipelinesStageToo) {
  ClusterJob job = given(30e9, 1, 0);
  job.layout.pipeline = 4;
  job.layout.schedule = parallel::PipelineSchedule::one_f_one_b;
  job.layout.accumulation = 4;
  bool shares = false;
  for (const WayToFit& way : ways_to_fit(job).ways) {
    shares = shares || way.flags.find("--zero 3") != std::string::npos;
  }
  EXPECT_TRUE(shares);
}

}  // namespace
}  // namespace lockstep::planner
