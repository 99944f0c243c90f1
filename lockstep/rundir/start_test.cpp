#include "lockstep/rundir/start.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>

#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/config/parse.h"
#include "lockstep/metrics/events_file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

/// Only what no --allow-change lets through.
std::vector<Problem> model_changes(const config::RunConfig& config, const std::string& stored,
                                   const std::string& where) {
  std::vector<ResumeChange> changes = resume_changes(config, stored);
  std::erase_if(changes,
                [](const ResumeChange& one) { return one.change != ChangeClass::impossible; });
  return change_problems(changes, {}, where);
}

namespace fs = std::filesystem;
using test::ScratchFolder;

config::RunConfig mlp() {
  config::RunConfig config;
  config.model.width = 192;
  return config;
}

planner::Job job_in(const ScratchFolder& scratch, const std::string& resume = "auto") {
  planner::Job job;
  job.config = mlp();
  job.run_dir = scratch.path();
  job.resume = resume;
  return job;
}

void put_step(const ScratchFolder& scratch, const std::string& name,
              const config::RunConfig& config) {
  checkpoint::Manifest manifest;
  manifest.config_json = config::to_json_text(config);
  fs::create_directories(scratch.path() / "checkpoints" / name);
  (void)scratch.write("checkpoints/" + name + "/manifest.json",
                      checkpoint::write_manifest(manifest));
}

std::vector<Problem> problems_of(const planner::Job& job) {
  try {
    check_start(job);
    return {};
  } catch (const UsageError& error) {
    return error.problems();
  }
}

std::vector<std::string> changes(const config::RunConfig& now, const config::RunConfig& then) {
  std::vector<std::string> texts;
  for (const Problem& problem : model_changes(now, config::to_json_text(then), "step-1")) {
    EXPECT_EQ(problem.code, "LS-5006");
    texts.push_back(problem.what);
  }
  return texts;
}

TEST(ModelChanges, EachKeyIsOneLineWithBothValues) {
  config::RunConfig now = mlp();
  now.model.width = 64;
  now.model.layers = 5;
  EXPECT_EQ(changes(now, mlp()),
            (std::vector<std::string>{"model.layers is 5, the checkpoint has 3",
                                      "model.width is 64, the checkpoint has 192"}));
}

TEST(ModelChanges, AnotherFamilyOrOptimizerIsSaidAlone) {
  config::RunConfig now = mlp();
  now.model.family = config::Family::gpt;
  now.model.layers = 9;
  EXPECT_EQ(changes(now, mlp()),
            std::vector<std::string>{"model.family is \"gpt\", the checkpoint has \"mlp\""});
  config::RunConfig then = mlp();
  then.optimizer.momentum = 0.9;
  now = mlp();
  now.optimizer.name = config::OptimizerName::adamw;
  EXPECT_EQ(changes(now, then),
            std::vector<std::string>{"optimizer.name is \"adamw\", the checkpoint has \"sgd\""});
}

TEST(ModelChanges, WhatTensorsDoNotDependOnMayChange) {
  config::RunConfig now = mlp();
  now.optimizer.lr = 7;
  now.optimizer.momentum = 0.5;
  now.run.epochs = 9.0;
  now.batch.global_batch = 512;
  now.model.heads = 3;  // read by gpt only
  now.data.seq_len = 8;
  config::RunConfig then = mlp();
  then.optimizer.momentum = 0.9;
  EXPECT_TRUE(changes(now, then).empty());
  now.optimizer.momentum = 0;
  EXPECT_EQ(changes(now, then),
            std::vector<std::string>{"optimizer.momentum is 0.0, the checkpoint has 0.9"});
}

TEST(ModelChanges, AConfigurationThatIsNotOursChangesNothing) {
  for (const char* stored : {"", "{}", "[]", "{\"model\":3}", "{\"model\":{\"widht\":1}}"}) {
    EXPECT_TRUE(model_changes(mlp(), stored, "x").empty()) << stored;
  }
}

TEST(CheckStart, TheNewestCheckpointMustBeOfTheSameModel) {
  const ScratchFolder scratch;
  EXPECT_TRUE(problems_of(job_in(scratch)).empty());
  put_step(scratch, "step-3", mlp());
  EXPECT_TRUE(problems_of(job_in(scratch)).empty());
  config::RunConfig other = mlp();
  other.model.width = 64;
  put_step(scratch, "step-10", other);
  const auto problems = problems_of(job_in(scratch));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, (scratch.path() / "checkpoints/step-10").string());
  EXPECT_EQ(problems[0].what, "model.width is 192, the checkpoint has 64");
  EXPECT_TRUE(problems_of(job_in(scratch, "none")).empty());
  EXPECT_TRUE(problems_of(job_in(scratch, "step-3")).empty());
}

TEST(CheckStart, ADamagedCheckpointIsLeftToTheRanks) {
  const ScratchFolder scratch;
  put_step(scratch, "step-3", mlp());
  (void)scratch.write("checkpoints/step-3/manifest.json", "{");
  EXPECT_TRUE(problems_of(job_in(scratch)).empty());
}

TEST(CheckStart, WhatCannotBeACheckpointIsRefusedWithItsReason) {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path() / "empty");
  (void)scratch.write("file", "x");
  fs::create_symlink("loop", scratch.path() / "loop");
  const auto says = [&](const std::string& resume, const std::string& text) {
    const auto problems = problems_of(job_in(scratch, resume));
    ASSERT_EQ(problems.size(), 1U) << resume.substr(0, 20);
    EXPECT_NE(problems[0].what.find(text), std::string::npos) << problems[0].what;
    EXPECT_LT(problems[0].where.size(), 300U);
  };
  says("nope", "no such checkpoint in");
  says(std::string(5000, 'x'), "File name too long");
  says(scratch.file("loop"), "Too many levels of symbolic links");
  says(scratch.file("file"), "not a folder");
  says(scratch.file("empty"), "holds no manifest.json");
}

TEST(CheckStart, NamesThatAreNotUtf8AreRefused) {
  const ScratchFolder scratch;
  planner::Job job = job_in(scratch, "\xff\xfe");
  job.run_dir = "\xff\xfe";
  const auto problems = problems_of(job);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].where, "--run-dir");
  EXPECT_EQ(problems[1].where, "--resume");
}

TEST(FinishedSummary, IsOfARunThatIsDoneAndEqual) {
  const ScratchFolder scratch;
  const planner::Job job = job_in(scratch);
  EXPECT_FALSE(finished_summary(job));
  engine::RunSummary summary;
  summary.steps = 8;
  summary.config_hash = config::config_hash(job.config);
  metrics::write_summary(scratch.path(), summary);
  ASSERT_TRUE(finished_summary(job));
  EXPECT_EQ(finished_summary(job)->steps, 8);
  EXPECT_FALSE(finished_summary(job_in(scratch, "none")));
  planner::Job longer = job;
  longer.config.run.epochs = 5.0;
  EXPECT_FALSE(finished_summary(longer));
  summary.status = "stopped";
  metrics::write_summary(scratch.path(), summary);
  EXPECT_FALSE(finished_summary(job));
}

TEST(FinishedSummary, WhatCannotBeReadIsNone) {
  const ScratchFolder scratch;
  (void)scratch.write("summary.json", "{\"status\":\"done\"");
  EXPECT_FALSE(read_summary(scratch.path()));
  fs::remove(scratch.path() / "summary.json");
  ASSERT_EQ(::mkfifo(scratch.file("summary.json").c_str(), 0600), 0);
  EXPECT_FALSE(read_summary(scratch.path()));
}

}  // namespace
}  // namespace lockstep::rundir
