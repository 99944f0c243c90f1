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

TEST(JobFront, TheRunDirectoryHoldsWhatRanksNeed) {
  const test::ScratchFolder folder;
  JobRequest request;
  request.config.run.steps = 3;
  request.ranks = 2;
  request.run_dir = folder.file("run");
  request.resume = "none";
  const planner::Job made = prepare_job(request, Host{});
  const planner::Job read_back = planner::job_from_json_text(read(folder.file("run/job.json")));
  EXPECT_EQ(planner::to_json_text(read_back), planner::to_json_text(made));
  EXPECT_EQ(read_back.resume, "none");
  EXPECT_EQ(read_back.plan.batch.data_ranks, 2);
  EXPECT_EQ(config::from_json_text(read(folder.file("run/config.json"))).run.steps, 3);
  EXPECT_NE(read(folder.file("run/plan.json")), "");
}

TEST(JobFront, AWrongConfigurationLeavesNothingBehind) {
  const test::ScratchFolder folder;
  JobRequest request;
  request.config.batch.global_batch = 7;
  request.ranks = 2;
  request.run_dir = folder.file("run");
  EXPECT_THROW((void)prepare_job(request, Host{}), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST(JobFront, RanksAreTheWorkerBesideThisProgram) {
  std::ostringstream out;
  Context context{.out = out, .err = out, .program_path = "/opt/bin/lockstep"};
  planner::Job job;
  job.run_dir = "runs/x";
  job.plan.degree = {1, 3, 1};
  job.config.run.threads = 2;
  const auto options = rank_options(job, context);
  EXPECT_EQ(options.command, (std::vector<std::string>{"/opt/bin/lockstep-worker", "train", "--job",
                                                       "runs/x/job.json", "--no-color"}));
  EXPECT_EQ(options.nproc_per_node, 3);
  EXPECT_EQ(options.threads_per_rank, 2);
}

}  // namespace
}  // namespace lockstep::cli
