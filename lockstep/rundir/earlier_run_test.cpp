#include "lockstep/rundir/earlier_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/config/parse.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

void put_step(const fs::path& checkpoints, int step) {
  const fs::path folder = checkpoints / ("step-" + std::to_string(step));
  fs::create_directories(folder);
  std::ofstream(folder / "manifest.json") << step;
}

std::set<std::string> names_in(const fs::path& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

std::string read(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// A run directory with checkpoints of steps 5 and 10, events and a summary.
class EarlierRun : public testing::Test {
 protected:
  void SetUp() override {
    job_.run_dir = scratch_.path() / "run";
    run_ = job_.run_dir;
    for (const int step : {5, 10}) put_step(run_ / "checkpoints", step);
    for (const char* file : {"events.jsonl", "summary.json", "config.json"}) {
      std::ofstream(run_ / file) << file;
    }
    fs::create_directory(run_ / "logs");
  }

  ScratchFolder scratch_;
  planner::Job job_;
  fs::path run_;
};

TEST_F(EarlierRun, AllOfItStepsAsideForARunFromTheStart) {
  const auto notes = set_aside_earlier(job_, {});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find((run_ / "previous-1").string()), std::string::npos) << notes[0];
  EXPECT_EQ(names_in(run_), (std::set<std::string>{"logs", "previous-1"}));
  EXPECT_EQ(names_in(run_ / "previous-1"),
            (std::set<std::string>{"checkpoints", "events.jsonl", "summary.json", "config.json"}));
  EXPECT_EQ(checkpoint::complete_steps(run_ / "previous-1/checkpoints").size(), 2U);
  EXPECT_TRUE(set_aside_earlier(job_, {}).empty()) << "nothing was left";
  put_step(run_ / "checkpoints", 1);
  EXPECT_EQ(set_aside_earlier(job_, {}).size(), 1U);
  EXPECT_EQ(names_in(run_ / "previous-2"), std::set<std::string>{"checkpoints"});
}

TEST_F(EarlierRun, ACheckpointFromElsewhereStartsAnotherRun) {
  put_step(scratch_.path() / "other", 7);
  EXPECT_EQ(set_aside_earlier(job_, {scratch_.path() / "other/step-7", 7}).size(), 1U);
  EXPECT_FALSE(fs::exists(run_ / "checkpoints"));
}

TEST_F(EarlierRun, GoingOnFromTheNewestMovesNothing) {
  EXPECT_TRUE(set_aside_earlier(job_, {run_ / "checkpoints/step-10", 10}).empty());
  EXPECT_TRUE(set_aside_earlier(job_, {run_ / "checkpoints/step-10/", 10}).empty());
  EXPECT_TRUE(set_aside_earlier(job_, {run_ / "checkpoints/step-10/.", 10}).empty());
  std::filesystem::create_directory_symlink(run_ / "checkpoints/step-10",
                                            scratch_.path() / "latest");
  EXPECT_TRUE(set_aside_earlier(job_, {scratch_.path() / "latest", 10}).empty());
  EXPECT_EQ(names_in(run_).count("previous-1"), 0U);
}

TEST_F(EarlierRun, LaterCheckpointsStepAsideWhenAnOlderOneGoesOn) {
  const auto notes = set_aside_earlier(job_, {run_ / "checkpoints/step-5", 5});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("(step-10)"), std::string::npos) << notes[0];
  EXPECT_EQ(names_in(run_ / "checkpoints"), std::set<std::string>{"step-5"});
  EXPECT_EQ(names_in(run_ / "previous-1/checkpoints"), std::set<std::string>{"step-10"});
  EXPECT_EQ(read(run_ / "events.jsonl"), "events.jsonl");
  EXPECT_EQ(read(run_ / "previous-1/events.jsonl"), "events.jsonl");
}

TEST_F(EarlierRun, CheckpointsOutsideOfTheRunDirectoryStayBesideTheirPlace) {
  const fs::path elsewhere = scratch_.path() / "elsewhere";
  job_.config.checkpoint.dir = elsewhere;
  put_step(elsewhere, 3);
  EXPECT_EQ(set_aside_earlier(job_, {}).size(), 2U);
  EXPECT_TRUE(checkpoint::complete_steps(elsewhere).empty());
  EXPECT_EQ(names_in(elsewhere / "previous-1"), std::set<std::string>{"step-3"});
  EXPECT_EQ(names_in(run_ / "checkpoints").size(), 2U) << "not what this run reads";
}

TEST_F(EarlierRun, ANewFolderHasNone) {
  job_.run_dir = scratch_.path() / "new";
  fs::create_directory(job_.run_dir);
  std::ofstream(fs::path(job_.run_dir) / "events.jsonl");
  EXPECT_TRUE(set_aside_earlier(job_, {}).empty());
}

TEST(JobFiles, HoldWhatTheRanksGot) {
  const ScratchFolder scratch;
  planner::Job job;
  job.config.run.steps = 3;
  job.run_dir = scratch.path();
  write_job_files(job);
  EXPECT_EQ(config::from_json_text(read(scratch.path() / "config.json")).run.steps, 3);
  EXPECT_EQ(parallel::plan_from_json_text(read(scratch.path() / "plan.json")).degree,
            job.plan.degree);
  EXPECT_EQ(names_in(scratch.path()), (std::set<std::string>{"config.json", "plan.json"}));
}

}  // namespace
}  // namespace lockstep::rundir
