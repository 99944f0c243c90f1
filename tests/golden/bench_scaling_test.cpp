// `lockstep bench scaling`, from the command line to its files.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

constexpr const char* kRun = R"(
[run]
name = "tiny"
epochs = 100
[model]
family = "mlp"
layers = 1
width = 16
inputs = 8
classes = 2
[data]
format = "synthetic"
train_samples = 4096
[batch]
micro_batch = 8
)";

/// bench scaling of a tiny run, results in `folder`/out.
ProgramResult bench(const TemporaryFolder& folder, const std::vector<std::string>& flags) {
  write_file(folder / "run.toml", kRun);
  std::vector<std::string> argv{
      program("lockstep"), "bench",   "scaling", folder / "run.toml", "--out",
      folder / "out",      "--steps", "6",       "--warmup",          "2"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return run_program(argv, {.extra_env = {"LC_ALL=C"}});
}

TEST(BenchScaling, JsonGivesOneLineACountAndTheFilesLieInTheFolder) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(folder, {"--ranks", "2,1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  std::istringstream lines(result.out);
  int ranks = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("ranks"), ++ranks);
    EXPECT_GT(row.at("samples_per_s").get<double>(), 0);
    EXPECT_GT(row.at("speedup").get<double>(), 0);
    EXPECT_DOUBLE_EQ(row.at("efficiency").get<double>(), row.at("speedup").get<double>() / ranks);
    EXPECT_FALSE(row.at("dominating_phase").get<std::string>().empty());
  }
  EXPECT_EQ(ranks, 2);
  EXPECT_EQ(read_file(folder / "out/scaling.csv").rfind("ranks,samples_per_s", 0), 0U);
  EXPECT_NE(read_file(folder / "out/scaling.svg").find("</svg>"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/ranks-2/summary.json"));
}

TEST(BenchScaling, PeopleGetATableAndAPlot) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(folder, {"--ranks", "1", "--strong"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_NE(result.out.find("dominating phase"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(":: ideal"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(BenchScaling, ABatchThatDoesNotDivideIsRefusedBeforeAnythingRuns) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--ranks", "1,3", "--strong", "--set", "batch.global_batch=64"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("on 3 ranks"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(BenchScaling, AListThatIsNoneIsAUsageError) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(folder, {"--ranks", "1,0", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(nlohmann::json::parse(result.out).at("errors").at(0).at("where"), "--ranks");
}

TEST(BenchScaling, ARunThatFailsEndsTheBenchWithItsOwnCode) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--ranks", "1", "--set", "model.family=gpt", "--set", "model.heads=1", "--set",
                     "data.format=text", "--set", "data.train=!false"});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("the run on 1 rank: error LS-7053"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("LS-2006"), std::string::npos) << "what the rank said";
}

TEST(BenchScaling, MissingDataAreFoundBeforeAnythingIsStarted) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--ranks", "1", "--set", "data.format=idx", "--set",
                     "data.train=/nonexistent/train-images-idx3-ubyte.gz"});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("data.train: error LS-2001"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace lockstep::test
