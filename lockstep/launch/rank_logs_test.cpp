#include "lockstep/launch/rank_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Shown = StreamLog::Shown;

class RankLogsTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.nproc_per_node = 3;
    options_.log_dir = (folder_.path() / "logs").string();
  }
  test::ScratchFolder folder_;
  LaunchOptions options_;
};

TEST_F(RankLogsTest, ATreeIsLaidOutAsTorchrunDoes) {
  options_.redirects = *parse_streams("3");
  LogTree tree(options_, "job/7");
  const auto logs = tree.make_attempt(2, 3);
  EXPECT_EQ(tree.folder(), options_.log_dir + "/job_7");
  EXPECT_EQ(logs[1].out.file, tree.folder() + "/attempt_2/1/stdout.log");
  EXPECT_EQ(logs[1].err.file, tree.folder() + "/attempt_2/1/stderr.log");
  EXPECT_EQ(logs[1].error_file, tree.folder() + "/attempt_2/1/error.json");
  EXPECT_TRUE(fs::is_directory(tree.folder() + "/attempt_2/2"));
  EXPECT_EQ(logs[0].out.shown, Shown::no);
}

TEST_F(RankLogsTest, ASecondLaunchKeepsTheLogsOfTheFirst) {
  const LogTree first(options_, "job");
  const LogTree second(options_, "job");
  EXPECT_EQ(second.folder(), options_.log_dir + "/job_2");
}

TEST_F(RankLogsTest, WhatIsTeedIsShownByLineAndWhatIsNeitherAsItComes) {
  options_.tee = *parse_streams("0:1,1:3");
  LogTree tree(options_, "job");
  const auto logs = tree.make_attempt(0, 3);
  EXPECT_EQ(logs[0].out.shown, Shown::lines);
  EXPECT_NE(logs[0].out.file, "");
  EXPECT_EQ(logs[0].err.shown, Shown::raw);
  EXPECT_EQ(logs[0].err.file, "");
  EXPECT_EQ(logs[1].err.shown, Shown::lines);
  EXPECT_EQ(logs[2].out.shown, Shown::raw);
}

TEST_F(RankLogsTest, RanksThatAreFilteredOutAreWrittenButNotShown) {
  options_.tee = *parse_streams("3");
  options_.local_ranks_filter = {1};
  LogTree tree(options_, "job");
  const auto logs = tree.make_attempt(0, 3);
  EXPECT_EQ(logs[0].out.shown, Shown::no);
  EXPECT_NE(logs[0].out.file, "");
  EXPECT_EQ(logs[1].out.shown, Shown::lines);
}

TEST_F(RankLogsTest, ATemporaryFolderGoesWhenNothingWasLeftInIt) {
  options_.log_dir.clear();
  std::string empty;
  std::string used;
  {
    LogTree tree(options_, "job");
    (void)tree.make_attempt(0, 3);
    empty = tree.folder();
    LogTree other(options_, "job");
    used = other.folder();
    std::ofstream(other.make_attempt(0, 3)[0].error_file) << "{}";
  }
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_TRUE(fs::exists(used));
  fs::remove_all(used);
}

TEST_F(RankLogsTest, ErrorsOfAJobThatEndedWellAfterARestartGoAndItsOutputStays) {
  options_.log_dir.clear();
  const auto folder_after = [&](bool succeeded) {
    LogTree tree(options_, "job");
    std::ofstream(tree.make_attempt(0, 1)[0].error_file) << "{}";
    if (succeeded) tree.set_succeeded();
    return tree.folder();
  };
  EXPECT_FALSE(fs::exists(folder_after(true)));
  const fs::path of_failure = folder_after(false);
  EXPECT_TRUE(fs::exists(of_failure));
  options_.redirects = *parse_streams("3");
  const fs::path with_output = folder_after(true);
  EXPECT_TRUE(fs::exists(with_output));
  fs::remove_all(of_failure);
  fs::remove_all(with_output);
}

TEST_F(RankLogsTest, WithoutAPlaceForTemporaryFilesRanksDoWithout) {
  const char* before = std::getenv("TMPDIR");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/proc", 1);  // a folder in which nobody can make one
  options_.log_dir.clear();
  {
    LogTree tree(options_, "job");
    EXPECT_THAT(tree.missing(), HasSubstr("/proc/lockstep-launch-"));
    EXPECT_EQ(tree.make_attempt(0, 1)[0].error_file, "");
  }
  options_.tee = *parse_streams("3");
  EXPECT_THROW(LogTree(options_, "job"), EnvironmentFault) << "output has to go somewhere";
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", old.c_str(), 1);
}

TEST_F(RankLogsTest, NoFilesAreMadeForDevNull) {
  options_.log_dir = "/dev/null";
  options_.redirects = *parse_streams("3");
  LogTree tree(options_, "job");
  const auto logs = tree.make_attempt(0, 1);
  EXPECT_EQ(logs[0].out.file, "");
  EXPECT_EQ(logs[0].error_file, "");
  EXPECT_FALSE(tree.has_output());
}

TEST_F(RankLogsTest, LinesWithAWordOfTheFilterAreWrittenASecondTime) {
  options_.tee = *parse_streams("3");
  options_.stdout_filters = {"loss", "lr"};
  options_.line_prefix = "[${role_name}:${rank}/${local_rank}] ";
  LogTree tree(options_, "job");
  (void)tree.make_attempt(0, 3);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    LostOutput lost;
    RankConsole console(options_, tree, 0, 4, lost);
    console.write({5, false, "loss 0.5", false, 1});
    console.write({5, false, "hello", false, 1});
    console.write({4, true, "loss of a disk", false, 0});
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[default:4/0] loss of a disk\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "[default:5/1] loss 0.5\n[default:5/1] hello\n");
  std::ifstream file(tree.filtered_file(0, false));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "[default:5/1] loss 0.5\n");
}

}  // namespace
}  // namespace lockstep::launch
