#include "lockstep/launch/log_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(LogFile, MakesItsFolderAndTurnsOverWhenFull) {
  std::string name = testing::TempDir() + "log-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path path = fs::path(name) / "attempt_0" / "1" / "stderr.log";
  LostOutput lost;
  {
    LogFile log(path, lost, 10);
    for (const char* line : {"one\n", "two\n", "three\n", "four\n", "five\n"}) log.feed(line);
  }
  EXPECT_EQ(read(path), "four\nfive\n");
  EXPECT_EQ(read(path.string() + ".1"), "three\n")
      << "an older part was kept, or this one was lost";
  EXPECT_TRUE(lost.problems().empty());
  fs::remove_all(name);
}

TEST(LogFile, AFullDiskIsToldOnceAndTheNextLineIsTriedAgain) {
  std::string told;
  LostOutput lost([&](const Problem& problem) { told += problem.where + ": " + problem.what; });
  LogFile log("/dev/full", lost);
  log.feed("one\n");
  log.feed("two\n");
  EXPECT_EQ(told, "/dev/full: what a rank prints cannot be written: No space left on device");
}

TEST(LogFile, AFolderThatIsGoneWhenTheFileTurnsOverIsTold) {
  std::string name = testing::TempDir() + "log-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  LostOutput lost([](const Problem&) {});
  LogFile log(fs::path(name) / "stdout.log", lost, 4);
  log.feed("one\n");
  EXPECT_TRUE(lost.problems().empty());
  fs::remove_all(name);
  log.feed("two\n");
  ASSERT_EQ(lost.problems().size(), 1U);
  EXPECT_EQ(lost.problems()[0].code, "LS-3009");
  fs::create_directories(name);
  log.feed("six\n");
  EXPECT_EQ(read(fs::path(name) / "stdout.log"), "six\n");
  fs::remove_all(name);
}

TEST(LogFile, AFolderThatCannotBeMadeIsAFaultOfTheEnvironment) {
  LostOutput lost;
  EXPECT_THROW(LogFile("/proc/none/stderr.log", lost), EnvironmentFault);
}

}  // namespace
}  // namespace lockstep::launch
