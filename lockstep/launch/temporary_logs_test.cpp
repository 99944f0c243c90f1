#include "lockstep/launch/temporary_logs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_lock.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

/// $TMPDIR is a folder of the test.
class TemporaryLogsTest : public testing::Test {
 protected:
  TemporaryLogsTest() {
    const char* before = std::getenv("TMPDIR");
    had_before_ = before != nullptr;
    if (had_before_) before_ = before;
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~TemporaryLogsTest() override {
    had_before_ ? ::setenv("TMPDIR", before_.c_str(), 1) : ::unsetenv("TMPDIR");
  }

  /// What a launcher left that has ended; `files` are as old as said.
  fs::path left(int number, const std::string& file, std::chrono::hours age = {}) const {
    fs::path made = folder_.path() /
                    ("lockstep-launch-" + std::to_string(999'000'000 + number) + "-abcdef") /
                    "attempt_0" / "0";
    fs::create_directories(made);
    if (!file.empty()) {
      std::ofstream(made / file) << "{}";
      fs::last_write_time(made / file, fs::file_time_type::clock::now() - age);
    }
    return made.parent_path().parent_path();
  }

  test::ScratchFolder folder_;

 private:
  bool had_before_ = false;
  std::string before_;
};

TEST_F(TemporaryLogsTest, WhatNoRankWroteToGoesAndWhatIsInUseStays) {
  const fs::path of_dead = left(0, "");
  const fs::path with_words = left(1, "error.json");
  const fs::path locked = left(2, "error.json", std::chrono::hours(24 * 365));
  const Fd lock(::open(locked.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(take_lock(lock));
  const pid_t live = ::fork();
  if (live == 0) {
    ::pause();
    ::_exit(0);
  }
  const fs::path of_live = folder_.path() / ("lockstep-launch-" + std::to_string(live) + "-x");
  const fs::path of_init = folder_.path() / "lockstep-launch-1-x";  // of another container's
  fs::create_directories(of_init);
  const fs::path of_others = folder_.path() / "lockstep-launched-1-x";
  for (const fs::path& folder : {of_live, of_others}) fs::create_directories(folder);
  const TemporaryLogs one = make_temporary_logs();
  const TemporaryLogs other = make_temporary_logs();
  EXPECT_TRUE(fs::exists(one.folder)) << "the maker's number is this process's, but it is in use";
  EXPECT_NE(one.folder, other.folder);
  ::kill(live, SIGKILL);
  ::waitpid(live, nullptr, 0);
  EXPECT_FALSE(fs::exists(of_dead));
  EXPECT_FALSE(fs::exists(of_init));
  for (const fs::path& stays : {with_words, locked, of_live, of_others}) {
    EXPECT_TRUE(fs::exists(stays)) << stays;
  }
}

TEST_F(TemporaryLogsTest, GoAfterSomeDays) {
  constexpr std::chrono::hours kDay{24};
  const fs::path young = left(0, "stdout.log", kDay * (kDaysOfTemporaryLogs - 1));
  const fs::path old = left(1, "stdout.log", kDay * (kDaysOfTemporaryLogs + 1));
  const fs::path old_error = left(2, "error.json", kDay * (kDaysOfTemporaryLogs + 1));
  (void)make_temporary_logs();
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(old_error));
}

TEST_F(TemporaryLogsTest, OnlyTheNewestErrorsStayAndAllOutput) {
  constexpr int kMost = static_cast<int>(kMostTemporaryLogs);
  for (int i = 0; i < kMost + 5; ++i) (void)left(i, "error.json", std::chrono::hours(i));
  const fs::path output = left(kMost + 5, "stderr.log", std::chrono::hours(kMost + 5));
  (void)make_temporary_logs();
  EXPECT_TRUE(fs::exists(output));
  for (int i = 0; i < kMost + 5; ++i) {
    const fs::path folder =
        folder_.path() / ("lockstep-launch-" + std::to_string(999'000'000 + i) + "-abcdef");
    EXPECT_EQ(fs::exists(folder), i < kMost) << i;
  }
}

TEST_F(TemporaryLogsTest, ALinkOfThatNameIsLeftAlone) {
  const fs::path target = folder_.path() / "mine";
  fs::create_directories(target);
  fs::create_directory_symlink(target, folder_.path() / "lockstep-launch-999000000-abcdef");
  (void)make_temporary_logs();
  EXPECT_TRUE(fs::exists(target));
}

}  // namespace
}  // namespace lockstep::launch
