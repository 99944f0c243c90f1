#include "lockstep/cli/job_front.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "lockstep/rundir/start.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::cli {
namespace {

std::string read(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

launch::LocalJobResult failure_of_rank_one() {
  launch::RankEnd end;
  end.rank = 1;
  end.signal = 9;
  launch::LocalJobResult result;
  result.exit = Exit::failed;
  result.first_failure = end;
  return result;
}

TEST(JobFront, EachStartHandsItsRanksAJobOfItsOwn) {
  const test::ScratchFolder folder;
  planner::Job made;
  made.config.run.steps = 3;
  made.plan.degree = {1, 2, 1};
  made.resume = "none";
  {
    const JobDir dir = make_job_dir(made, folder.file("run"));
    EXPECT_EQ(made.run_dir, folder.file("run"));
    EXPECT_EQ(dir.log_dir, folder.file("run/logs/1"));
    const planner::Job read_back = planner::job_from_json_text(read(dir.job_file));
    EXPECT_EQ(planner::to_json_text(read_back), planner::to_json_text(made));
    EXPECT_THROW((void)make_job_dir(made, folder.file("run")), UsageError) << "it is in use";
    EXPECT_EQ(worker_command("/opt/bin/lockstep-worker", dir.job_file),
              (std::vector<std::string>{"/opt/bin/lockstep-worker", "train", "--job",
                                        folder.file("run/logs/1/job.json"), "--json"}));
  }
  EXPECT_EQ(make_job_dir(made, folder.file("run")).log_dir, folder.file("run/logs/2"));
  // What the run before left stays until the ranks have accepted theirs.
  EXPECT_FALSE(std::filesystem::exists(folder.file("run/config.json")));
}

TEST(JobFront, TheSameCommandGoesOnFromTheNewestWholeCheckpoint) {
  const test::ScratchFolder folder;
  planner::Job job;
  job.run_dir = folder.file("run");
  job.resume = "auto";
  EXPECT_FALSE(resume_point(job).has_value());
  for (const char* step : {"step-5", "step-10", "step-15"}) {
    std::filesystem::create_directories(rundir::checkpoints_dir(job) / step);
  }
  std::ofstream(rundir::checkpoints_dir(job) / "step-5" / "manifest.json") << "{}";
  std::ofstream(rundir::checkpoints_dir(job) / "step-10" / "manifest.json") << "{}";
  ASSERT_TRUE(resume_point(job).has_value());
  EXPECT_EQ(resume_point(job)->name, "step-10");
  EXPECT_EQ(resume_point(job)->step, 10);
}

TEST(JobFront, WhatTheRankSaidIsThePlaceToLookFirst) {
  launch::LocalJobResult result = failure_of_rank_one();
  result.first_failure->last_stderr =
      R"({"errors":[{"code":"LS-2001","where":"x","what":"is not there","fix":"install it"}]})";
  EXPECT_EQ(problems_of_job(result, "logs"),
            (std::vector<Problem>{{"LS-2001", "x", "is not there", "install it"}}));
}

TEST(JobFront, ARankThatSaidNothingIsDescribed) {
  const launch::LocalJobResult result = failure_of_rank_one();
  const test::ScratchFolder logs;
  const auto problems = problems_of_job(result, logs.path());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, "rank 1");
  EXPECT_NE(problems[0].what.find("SIGKILL"), std::string::npos);
  EXPECT_EQ(problems[0].fix, "all that the ranks printed is in " + logs.path().string());
  EXPECT_THROW((void)problems_of_job({}, ""), Bug);
}

TEST(JobFront, LogsThatSomebodyRemovedAreNotPointedAt) {
  EXPECT_EQ(place_of_logs("runs/gone/logs").find("all that the ranks printed is in"),
            std::string::npos);
}

TEST(JobFront, WithJsonTheConsoleNeverRedraws) {
  std::ostringstream out;
  Context context{.out = out, .err = out, .out_is_terminal = true, .color = true, .quiet = true};
  EXPECT_TRUE(console_options(context).terminal);
  EXPECT_TRUE(console_options(context).quiet);
  EXPECT_TRUE(console_options(context).style.color);
  context.json = true;
  EXPECT_FALSE(console_options(context).terminal);
}

}  // namespace
}  // namespace lockstep::cli
