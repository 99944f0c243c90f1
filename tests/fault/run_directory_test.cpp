// A run directory that is used again: nothing of a good run is lost, mixed or overwritten, and what
// cannot be gone on from is refused with its reason.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

const TinyRun kRun{.run = "name = \"again\"\nsteps = 12\n",
                   .data = "train_samples = 512\neval_samples = 64\n",
                   .more = "[optimizer]\nlr = 0.01\n[checkpoint]\nevery = 5\n"};

constexpr const char* kFiles[] = {"config.json", "plan.json", "events.jsonl", "summary.json"};

class RunDirectory : public TinyRunTest {
 protected:
  RunDirectory() : TinyRunTest(kRun) {}

  ProgramResult train(const std::vector<std::string>& more = {},
                      const std::vector<std::string>& env = {}) const {
    ProgramOptions options;
    options.extra_env = env;
    return run_program(command(more), options);
  }
  void train_whole() const {
    const ProgramResult result = train();
    ASSERT_EQ(result.exit_code, 0) << result.describe();
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> texts;
    for (const char* file : kFiles) texts[file] = read_file(folder_.path() / "run" / file);
    return texts;
  }
  nlohmann::json summary() const {
    return nlohmann::json::parse(read_file(folder_ / "run/summary.json"), nullptr, false);
  }
  bool has(const std::string& path) const { return fs::exists(folder_.path() / "run" / path); }
};

/// As a rank of a launcher that is not ours.
const std::vector<std::string> kLoneRank{"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"};

bool says(const ProgramResult& result, const std::string& text) {
  return (result.out + result.err).find(text) != std::string::npos;
}

TEST_F(RunDirectory, ResumeNoneSetsTheEarlierRunAsideAndTheNewestCheckpointIsTheNewRuns) {
  train_whole();
  const std::string events = read_file(folder_ / "run/events.jsonl");
  const ProgramResult anew = train({"--resume", "none", "--set", "run.steps=5"});
  ASSERT_EQ(anew.exit_code, 0) << anew.describe();
  EXPECT_TRUE(says(anew, "run/previous-1")) << anew.describe();
  EXPECT_TRUE(has("checkpoints/step-5"));
  EXPECT_FALSE(has("checkpoints/step-12"));
  EXPECT_TRUE(has("previous-1/checkpoints/step-12/manifest.json"));
  EXPECT_EQ(read_file(folder_ / "run/previous-1/events.jsonl"), events);
  const ProgramResult on = train({"--set", "run.steps=7"});
  EXPECT_EQ(on.exit_code, 0) << on.describe();
  EXPECT_TRUE(says(on, "step-5 (step 5)")) << on.describe();
  EXPECT_EQ(summary().at("steps"), 7);
}

TEST_F(RunDirectory, GoingOnFromAnOlderCheckpointSetsTheLaterOnesAside) {
  train_whole();
  const ProgramResult result = train({"--resume", "step-10", "--set", "run.steps=11"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_TRUE(has("checkpoints/step-11"));
  EXPECT_FALSE(has("checkpoints/step-12"));
  EXPECT_TRUE(has("previous-1/checkpoints/step-12/manifest.json"));
}

TEST_F(RunDirectory, TheCommandOfAFinishedRunIsAlreadyDoneAndWritesNothing) {
  train_whole();
  const auto before = files();
  const ProgramResult again = train();
  EXPECT_EQ(again.exit_code, 0) << again.describe();
  EXPECT_TRUE(says(again, "already done")) << again.describe();
  EXPECT_TRUE(says(again, "done after 12 steps")) << again.describe();
  const ProgramResult json = train({"--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out, nullptr, false), summary()) << json.describe();
  const ProgramResult as_rank = train({}, kLoneRank);
  EXPECT_EQ(as_rank.exit_code, 0) << as_rank.describe();
  EXPECT_TRUE(says(as_rank, "already done")) << as_rank.describe();
  EXPECT_EQ(files(), before);
}

TEST_F(RunDirectory, WhereNothingIsLeftToTrainTheReasonIsSaidAndTheSummaryKept) {
  train_whole();
  const auto before = files();
  const ProgramResult result = train({"--set", "batch.micro_batch=256", "--set", "run.epochs=4",
                                      "--allow-change", "batch.global_batch"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_TRUE(says(result,
                   "nothing is left to train: the run ends at step 8 (run.epochs = 4), and "
                   "the checkpoint is of step 12"))
      << result.describe();
  EXPECT_EQ(files(), before);
}

TEST_F(RunDirectory, ACheckpointOfAnotherModelIsRefusedInOneLineAKeyAndNothingIsTouched) {
  train_whole();
  const auto before = files();
  for (const auto& env : {std::vector<std::string>{}, kLoneRank}) {
    const ProgramResult result = train({"--set", "model.width=64", "--set", "model.layers=2"}, env);
    EXPECT_EQ(result.exit_code, 2) << result.describe();
    EXPECT_TRUE(says(result, "model.width is 64, the checkpoint has 16\n")) << result.describe();
    EXPECT_TRUE(says(result, "model.layers is 2, the checkpoint has 1\n")) << result.describe();
    EXPECT_LT(result.err.size(), 900U) << result.describe();
  }
  EXPECT_EQ(files(), before);
}

TEST_F(RunDirectory, FewerSamplesThanTheCheckpointStandsAtAreAUsageError) {
  train_whole();
  const auto before = files();
  const ProgramResult result = train({"--set", "data.train_samples=20", "--set", "run.steps=20",
                                      "--allow-change", "data.train_samples"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_TRUE(says(result, "sample 96 of an epoch, but the data set has only 20"))
      << result.describe();
  EXPECT_EQ(files(), before);
  const ProgramResult huge = train({"--set", "data.train_samples=1000000000000"});
  EXPECT_EQ(huge.exit_code, 2) << huge.describe();
  EXPECT_TRUE(says(huge, "data.train_samples cannot be")) << huge.describe();
}

TEST_F(RunDirectory, WhatIsNoCheckpointOrNoNameIsAUsageErrorForFrontAndRank) {
  fs::create_symlink("loop", folder_.path() / "loop");
  for (const auto& env : {std::vector<std::string>{}, kLoneRank}) {
    for (const std::string& resume :
         {std::string("nope"), std::string(5000, 'x'), folder_ / "loop", std::string("\xff\xfe")}) {
      const ProgramResult result = train({"--resume", resume}, env);
      EXPECT_EQ(result.exit_code, 2) << result.describe();
      EXPECT_LT(result.err.size(), 900U) << result.describe();
    }
    ProgramOptions options;
    options.extra_env = env;
    const ProgramResult name = run_program(
        {program("lockstep"), "train", folder_ / "run.toml", "--run-dir", folder_ / "\xff\xfe"},
        options);
    EXPECT_EQ(name.exit_code, 2) << name.describe();
    EXPECT_TRUE(says(name, "is not valid UTF-8")) << name.describe();
  }
}

TEST_F(RunDirectory, AResultFolderOfABenchmarkIsRefusedAlike) {
  const ProgramResult result =
      run_program({program("lockstep"), "bench", "scaling", folder_ / "run.toml", "--ranks", "1",
                   "--out", folder_ / "\xff\xfe"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_TRUE(says(result, "--out: error LS-1013: is not valid UTF-8")) << result.describe();
}

TEST_F(RunDirectory, ASecondRunInItIsToldWhoHoldsItAndTheFirstGoesOn) {
  RunningProgram first(command({"--set", "run.steps=10000000", "--set", "checkpoint.every=3"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(4); })) << first.err_so_far();
  for (const auto& env : {std::vector<std::string>{}, kLoneRank}) {
    const ProgramResult second = train({"--set", "run.steps=9"}, env);
    EXPECT_EQ(second.exit_code, 2) << second.describe();
    EXPECT_TRUE(says(second, "in use by pid " + std::to_string(first.pid()))) << second.describe();
    EXPECT_TRUE(says(second, "--run-dir")) << second.describe();
  }
  first.send_signal(SIGTERM);
  const ProgramResult stopped = first.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
}

TEST_F(RunDirectory, AResumedRunTellsItsOwnPartFromTheWhole) {
  train_whole();
  const ProgramResult result = train({"--set", "run.steps=20"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_TRUE(says(result, "steps 13-20, median ")) << result.describe();
  EXPECT_EQ(summary().at("steps"), 20);
  EXPECT_EQ(summary().at("first_step"), 13);
  EXPECT_EQ(summary().at("steps_this_run"), 8);
}

// As after a signal during the last evaluation: all steps are trained, but the run is not done.
TEST_F(RunDirectory, AStartWithoutAStepOfItsOwnKeepsWhatWasMeasured) {
  train_whole();
  const nlohmann::json whole = summary();
  nlohmann::json stopped = whole;
  stopped["status"] = "stopped";
  stopped.erase("eval");
  write_file(folder_ / "run/summary.json", stopped.dump());
  const ProgramResult result = train();
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  nlohmann::json after = summary();
  EXPECT_EQ(after.at("status"), "done");
  EXPECT_EQ(after.at("eval").at("loss"), whole.at("eval").at("loss"));
  EXPECT_EQ(after.at("samples_per_s"), whole.at("samples_per_s"));
  EXPECT_EQ(after.at("final_loss"), whole.at("final_loss"));
}

TEST_F(RunDirectory, AStoppedRunPrintsTheWholeCommandThatGoesOn) {
  RunningProgram running(command({"--set", "run.steps=10000000"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(6); })) << running.err_so_far();
  running.send_signal(SIGINT);
  const ProgramResult stopped = running.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
  EXPECT_TRUE(says(stopped, "lockstep train " + (folder_ / "run.toml") +
                                " --set run.steps=10000000 --run-dir " + (folder_ / "run") + "\n"))
      << stopped.describe();
}

TEST_F(RunDirectory, RemovedDuringTheRunItsLogsAreNotPointedAt) {
  RunningProgram running(command({"--set", "run.steps=10000000", "--set", "checkpoint.every=0"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(1); })) << running.err_so_far();
  fs::rename(folder_.path() / "run", folder_.path() / "gone");
  write_file(folder_ / "run", "a file in its place");
  running.send_signal(SIGTERM);
  const ProgramResult result = running.wait();
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_FALSE(says(result, "all that the ranks printed is in")) << result.describe();
}

TEST_F(RunDirectory, APipeInPlaceOfAFileIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe.toml").c_str(), 0600), 0);
  ProgramOptions options;
  options.deadline = std::chrono::seconds(30);
  const ProgramResult plan =
      run_program({program("lockstep"), "plan", folder_ / "pipe.toml"}, options);
  EXPECT_EQ(plan.exit_code, 2) << plan.describe();
  fs::create_directory(folder_.path() / "run");
  ASSERT_EQ(::mkfifo((folder_ / "run/events.jsonl").c_str(), 0600), 0);
  const ProgramResult result = run_program(command({}), options);
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_TRUE(says(result, "events.jsonl: error LS-3051: is not a regular file"))
      << result.describe();
}

TEST_F(RunDirectory, ADryRunOfARankTrainsNothingAndFlagsARankIgnoresAreNoted) {
  const ProgramResult dry = train({"--dry-run", "--nproc-per-node", "3"}, kLoneRank);
  EXPECT_EQ(dry.exit_code, 0) << dry.describe();
  EXPECT_TRUE(says(dry, "data_parallel on 1 rank")) << dry.describe();
  EXPECT_TRUE(says(dry, "note: --nproc-per-node 3 is not read")) << dry.describe();
  EXPECT_FALSE(has("")) << "a dry run made its run directory";
  EXPECT_EQ(train({"--dry-run"}, {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                                  "MASTER_PORT=29511", "MASTER_ADDR=127.0.0.1"})
                .out,
            "");
}

}  // namespace
}  // namespace lockstep::test
