#include "lockstep/launch/oom_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

/// A /proc and /sys of our own.
class OomWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "oom-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(OomWatchTest, ACountThatGrewExplainsOneKill) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 3\noom_kill 3\n");
  OomWatch watch(root_);
  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 4\noom_kill 4\n");
  EXPECT_TRUE(watch.explain_kill().starts_with("the kernel's out-of-memory killer ended it"));
  EXPECT_TRUE(
      watch.explain_kill().starts_with("the kernel's out-of-memory killer did not do this"));
}

TEST_F(OomWatchTest, ReadsVersionOneAlsoFromInsideAContainer) {
  write("/proc/self/cgroup", "5:devices:/x\n4:memory:/docker/abc\n");
  write("/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  OomWatch watch(root_);
  write("/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_TRUE(watch.explain_kill().starts_with("the kernel's out-of-memory killer ended it"));
}

TEST_F(OomWatchTest, SaysNothingWhereNothingCanBeRead) {
  OomWatch watch(root_);
  EXPECT_EQ(watch.explain_kill(), "");
}

}  // namespace
}  // namespace lockstep::launch
