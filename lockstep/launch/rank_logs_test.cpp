#include "lockstep/launch/rank_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(RankLogsTest, WhatAKilledLauncherLeftInTheTemporaryFolderGoesWithTheNext) {
  const test::ScratchFolder temporary;
  const char* before = std::getenv("TMPDIR");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("TMPDIR", temporary.path().c_str(), 1);
  const fs::path of_dead = temporary.path() / "lockstep-launch-999999999-abcdef/attempt_0/0";
  const fs::path with_words = temporary.path() / "lockstep-launch-999999998-abcdef";
  const fs::path of_live =
      temporary.path() / ("lockstep-launch-" + std::to_string(::getppid()) + "-x");
  for (const fs::path& folder : {of_dead, with_words, of_live}) fs::create_directories(folder);
  std::ofstream(with_words / "error.json") << "{}";
  LaunchOptions options;
  {
    const LogTree one(options, "none");
    const LogTree other(options, "none");
    EXPECT_TRUE(fs::exists(one.folder()));  // its own number, but in use
    EXPECT_FALSE(fs::exists(of_dead.parent_path().parent_path()));
    EXPECT_TRUE(fs::exists(with_words));
    EXPECT_TRUE(fs::exists(of_live));
  }
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
    RankConsole console(options_, tree, 0, 4);
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
