#include "lockstep/config/run_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::config {
namespace {

std::string complaint_about(const std::string& file) {
  try {
    (void)read_run_file(file, 100);
    return "none";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().at(0).code, "LS-1001");
    return error.problems().at(0).what;
  }
}

TEST(RunFile, IsReadUpToItsLimit) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.write("run.toml", std::string(200'000, 'x'));
  EXPECT_EQ(read_run_file(file, 1'000'000).size(), 200'000U);
  EXPECT_EQ(read_run_file(file, 100'001).size(), 100'001U);
  EXPECT_EQ(read_run_file("/dev/null", 10), "");
  EXPECT_EQ(read_run_file("/dev/zero", 10).size(), 10U);
}

TEST(RunFile, APipeWithoutAWriterIsRefusedAndNotWaitedFor) {
  const test::ScratchFolder scratch;
  ASSERT_EQ(::mkfifo(scratch.file("pipe.toml").c_str(), 0600), 0);
  EXPECT_EQ(complaint_about(scratch.file("pipe.toml")),
            "the run's TOML file cannot be read: it is not a regular file");
}

TEST(RunFile, WhatIsNoFileIsRefusedWithItsReason) {
  const test::ScratchFolder scratch;
  EXPECT_EQ(complaint_about(scratch.path()), "the run's TOML file cannot be read: it is a folder");
  EXPECT_EQ(complaint_about(scratch.file("none")), "the run's TOML file cannot be read");
  EXPECT_EQ(complaint_about(std::string(5000, 'x')),
            "the run's TOML file cannot be read: File name too long");
}

}  // namespace
}  // namespace lockstep::config
