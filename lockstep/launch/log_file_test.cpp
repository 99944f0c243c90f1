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
  {
    LogFile log(path, 10);
    for (const char* line : {"one\n", "two\n", "three\n", "four\n", "five\n"}) log.feed(line);
  }
  EXPECT_EQ(read(path), "four\nfive\n");
  EXPECT_EQ(read(path.string() + ".1"), "three\n")
      << "an older part was kept, or this one was lost";
  fs::remove_all(name);
}

TEST(LogFile, AFolderThatCannotBeMadeIsAFaultOfTheEnvironment) {
  EXPECT_THROW(LogFile("/proc/none/stderr.log"), EnvironmentFault);
}

}  // namespace
}  // namespace lockstep::launch
