// lockstep bench checkpoint: what it prints, and that it leaves nothing on the disk it timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

ProgramResult bench(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(),
               {program("lockstep"), "bench", "checkpoint", "--out", folder / "out"});
  return run_program(words);
}

TEST(BenchCheckpoint, PrintsALineForEachPartAndEmptiesTheFolderItTimed) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "disk");
  const ProgramResult result =
      bench(folder, {"--sizes", "1Mi", "--rounds", "2", "--dir", folder / "disk", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  std::set<std::string> parts;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    parts.insert(row.at("part"));
    EXPECT_EQ(row.at("ranks"), 2) << line;
    EXPECT_EQ(row.at("bytes"), 1 << 20) << line;
    EXPECT_GT(row.at("gbs"), 0) << line;
    EXPECT_LE(row.at("time_us").at("min"), row.at("time_us").at("max")) << line;
  }
  EXPECT_EQ(parts,
            (std::set<std::string>{"async save", "async stall", "disk write", "load", "save"}));
  EXPECT_TRUE(fs::is_empty(folder / "disk"));
}

TEST(BenchCheckpoint, TellsEveryWrongFlagAtOnceAndMakesNothing) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(
      folder, {"--sizes", "none", "--ranks", "0", "--dir", folder / "gone", "--against", "gloo"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  for (const char* flag : {"--sizes", "--ranks", "--dir", "--against"}) {
    EXPECT_THAT(result.err, HasSubstr(std::string(flag))) << result.describe();
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep::test
