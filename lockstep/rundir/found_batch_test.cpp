#include "lockstep/rundir/found_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/config/parse.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/planner/planner.h"
#include "lockstep/rundir/earlier_run.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Host host() {
  Host host;
  host.cores = 2;
  host.cpu_model = "a CPU";
  host.memory_bytes = 10'000'000'000;
  return host;
}

class FoundBatchTest : public testing::Test {
 protected:
  FoundBatchTest() {
    config_.batch.global_batch = 64;
    config_.batch.finds_micro_batch = true;
  }

  /// A job of two ranks in the folder's run/, as the front has it before it settles the batch.
  [[nodiscard]] planner::Job job(const std::string& resume = "auto") const {
    planner::Job job;
    job.config = config_;
    job.plan = planner::make_plan(config_, host(), 2, 0);
    job.run_dir = scratch_.file("run");
    job.resume = resume;
    return job;
  }

  [[nodiscard]] planner::Job settled(const std::string& resume = "auto") const {
    planner::Job made = job(resume);
    settle_micro_batch(made, host(), 0);
    return made;
  }

  /// A run with micro-batches of that size has left a checkpoint in run/.
  void leave_run(std::int64_t micro_batch, std::int64_t global_batch = 64) const {
    planner::Job earlier = job();
    earlier.config.batch.global_batch = global_batch;
    earlier.plan.batch.micro_batch = micro_batch;
    checkpoint::Manifest manifest;
    manifest.config_json =
        config::to_json_text(planner::with_found_batch(earlier.config, earlier.plan));
    fs::create_directories(scratch_.path() / "run/checkpoints/step-3");
    (void)scratch_.write("run/checkpoints/step-3/manifest.json",
                         checkpoint::write_manifest(manifest));
    write_job_files(earlier);
  }

  test::ScratchFolder scratch_;
  config::RunConfig config_;
};

TEST_F(FoundBatchTest, AFirstRunTakesWhatIsPredictedAndProbes) {
  const planner::Job made = settled();
  ASSERT_TRUE(made.search.has_value());
  EXPECT_TRUE(made.search->probes);
  EXPECT_EQ(made.plan.batch.micro_batch, 32);
  EXPECT_EQ(made.search->finer.front().batch.micro_batch, 16);
  EXPECT_EQ(made.search->finer.back().batch.micro_batch, 1);
  EXPECT_EQ(made.search->memory_limit_bytes, 4'500'000'000);
  EXPECT_THAT(made.search->because,
              StartsWith("micro_batch 32 x accumulation 1: predicted to take "));
  EXPECT_THAT(made.search->because, EndsWith(" of 4.50 GB a rank"));
}

TEST_F(FoundBatchTest, AFixedMicroBatchIsLeftAlone) {
  config_.batch.finds_micro_batch = false;
  config_.batch.micro_batch = 8;
  EXPECT_FALSE(settled().search.has_value());
  EXPECT_EQ(settled().plan.batch.micro_batch, 8);
}

TEST_F(FoundBatchTest, ALaterRunTakesWhatAnEarlierOneFound) {
  remember_micro_batch(settled(), {8, 1234, 200'000'000});
  const planner::Job made = settled();
  EXPECT_EQ(made.plan.batch.micro_batch, 8);
  EXPECT_EQ(made.plan.batch.accumulation, 4);
  EXPECT_FALSE(made.search->probes);
  EXPECT_EQ(made.search->finer.front().batch.micro_batch, 4);
  EXPECT_THAT(made.search->because, HasSubstr("as an earlier run found it, at 1.23k samples/s"));
  EXPECT_THAT(made.search->memory_file, StartsWith(scratch_.file(".lockstep/micro-batch-")));
}

TEST_F(FoundBatchTest, WhatWasFoundHoldsForItsModelMachineAndPrecisionOnly) {
  remember_micro_batch(settled(), {8, 0, 0});
  config_.precision.compute = config::Dtype::bf16;
  EXPECT_TRUE(settled().search->probes);
  config_.precision.compute = config::Dtype::fp32;
  config_.model.width = 128;
  EXPECT_TRUE(settled().search->probes);
  config_.model.width = 256;
  config_.optimizer.lr = 3;  // takes neither time nor memory
  EXPECT_FALSE(settled().search->probes);
  planner::Job made = job();
  Host other = host();
  other.memory_bytes /= 2;
  settle_micro_batch(made, other, 0);
  EXPECT_TRUE(made.search->probes);
}

TEST_F(FoundBatchTest, WhatNoLongerFitsOrCannotBeReadIsFoundAnew) {
  remember_micro_batch(settled(), {8, 0, 4'600'000'000});
  EXPECT_TRUE(settled().search->probes);
  const std::string file = settled().search->memory_file;
  for (const char* text : {"", "{", "[]", "{}", "{\"micro_batch\":8}", "{\"key\":3}"}) {
    (void)scratch_.write(fs::path(file).lexically_relative(scratch_.path()).string(), text);
    EXPECT_TRUE(settled().search->probes) << text;
  }
  remember_micro_batch(settled(), {7, 0, 0});
  EXPECT_TRUE(settled().search->probes);
}

TEST_F(FoundBatchTest, ARunThatGoesOnKeepsItsMicroBatch) {
  remember_micro_batch(settled(), {8, 0, 0});
  leave_run(2);
  EXPECT_EQ(settled().plan.batch.micro_batch, 2);
  EXPECT_FALSE(settled().search->probes);
  EXPECT_THAT(settled().search->because, EndsWith("as the run has it that goes on"));
  EXPECT_EQ(settled("none").plan.batch.micro_batch, 8);
  EXPECT_EQ(settled(scratch_.file("run/checkpoints/step-3")).plan.batch.micro_batch, 2);
  (void)scratch_.write("run/config.json", "{}");
  EXPECT_EQ(settled().plan.batch.micro_batch, 8);
}

TEST_F(FoundBatchTest, ARunThatGoesOnWithAnotherBatchFindsItAnew) {
  leave_run(2, 32);
  EXPECT_TRUE(settled().search->probes);
}

TEST_F(FoundBatchTest, IsKeptBesideTheRunDirectories) {
  const auto file_of = [&](const std::string& run_dir) {
    planner::Job made = job();
    made.run_dir = run_dir;
    settle_micro_batch(made, host(), 0);
    return fs::path(made.search->memory_file).parent_path().string();
  };
  EXPECT_EQ(file_of(""), "runs/.lockstep");
  EXPECT_EQ(file_of("runs/a"), "runs/.lockstep");
  EXPECT_EQ(file_of("runs/a/"), "runs/.lockstep");
  EXPECT_EQ(file_of("a"), "./.lockstep");
}

TEST_F(FoundBatchTest, AFolderThatCannotBeMadeIsAFaultOfTheEnvironment) {
  planner::Job made = settled();
  made.search->memory_file = scratch_.write("file", "") + "/micro-batch.json";
  EXPECT_THROW(remember_micro_batch(made, {8, 0, 0}), EnvironmentFault);
}

}  // namespace
}  // namespace lockstep::rundir
