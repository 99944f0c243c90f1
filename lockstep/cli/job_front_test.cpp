#include "lockstep/cli/job_front.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "lockstep/config/parse.h"
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

TEST(JobFront, TheRunDirectoryHoldsWhatRanksNeed) {
  const test::ScratchFolder folder;
  planner::Job made;
  made.config.run.steps = 3;
  made.plan.degree = {1, 2, 1};
  made.resume = "none";
  make_job_dir(made, folder.file("run"));
  EXPECT_EQ(made.run_dir, folder.file("run"));
  const planner::Job read_back = planner::job_from_json_text(read(folder.file("run/job.json")));
  EXPECT_EQ(planner::to_json_text(read_back), planner::to_json_text(made));
  EXPECT_EQ(config::from_json_text(read(folder.file("run/config.json"))).run.steps, 3);
  EXPECT_EQ(parallel::plan_from_json_text(read(folder.file("run/plan.json"))).degree,
            made.plan.degree);
  EXPECT_EQ(worker_command("/opt/bin/lockstep-worker", made),
            (std::vector<std::string>{"/opt/bin/lockstep-worker", "train", "--job",
                                      folder.file("run/job.json"), "--json"}));
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
  const auto problems = problems_of_job(result, "runs/x/logs");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, "rank 1");
  EXPECT_NE(problems[0].what.find("SIGKILL"), std::string::npos);
  EXPECT_NE(problems[0].fix.find("runs/x/logs"), std::string::npos);
  EXPECT_THROW((void)problems_of_job({}, ""), Bug);
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
