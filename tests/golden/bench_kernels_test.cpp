// `lockstep bench kernels` and `lockstep plan --calibrate`, from the command line to their files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

ProgramResult run(const TemporaryFolder& folder, std::vector<std::string> words,
                  std::vector<std::string> env = {}) {
  words.insert(words.begin(), program("lockstep"));
  env.emplace_back("LC_ALL=C");
  env.emplace_back("LOCKSTEP_CACHE=" + (folder / "cache"));
  return run_program(words, {.extra_env = env});
}

TEST(BenchKernels, JsonGivesOneLineAPointWithItsRate) {
  const TemporaryFolder folder;
  const ProgramResult result =
      run(folder, {"bench", "kernels", "--op", "layer_norm,convolution_1x1", "--dtype", "fp32", "--ranks",
                   "1,2", "--seconds", "0", "--out", folder / "out", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream in(result.out);
  int lines = 0;
  int of_two = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const json row = json::parse(line);
    EXPECT_GT(row.at("forward_us").get<double>(), 0) << line;
    EXPECT_GT(row.at("backward_us").get<double>(), 0) << line;
    EXPECT_GT(row.at(row.at("kernel") == "layer_norm" ? "gbs" : "gflops").get<double>(), 0) << line;
    of_two += row.at("ranks") == 2 ? 1 : 0;
  }
  EXPECT_EQ(lines, 2 * (9 + 8));
  EXPECT_EQ(of_two, lines / 2);
}

TEST(BenchKernels, PeopleGetATableOfEveryPointOfWhatTheyName) {
  const TemporaryFolder folder;
  const ProgramResult result = run(folder, {"bench", "kernels", "--op", "layer_norm", "--dtype",
                                            "bf16", "--seconds", "0", "--out", folder / "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("layer_norm bf16: rows, width"));
  EXPECT_THAT(result.out, HasSubstr("4,096 x 1,024"));
  EXPECT_TRUE(fs::exists(folder / "out/kernels.jsonl"));
}

TEST(BenchKernels, WrongWordsAreAllNamedWithTheNearest) {
  const TemporaryFolder folder;
  const ProgramResult result =
      run(folder, {"bench", "kernels", "--op", "gelo", "--dtype", "bf17", "--ranks", "0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean gelu"));
  EXPECT_THAT(result.err, HasSubstr("did you mean bf16"));
  EXPECT_THAT(result.err, HasSubstr("--ranks"));
}

TEST(PlanCalibrate, IsKeptAndPlansSayThatTheyGoByIt) {
  const TemporaryFolder folder;
  const std::vector<std::string> few{"LOCKSTEP_CALIBRATE=few"};
  const auto plan = [&] { return run(folder, {"plan", "--set", "model.layers=2", "--json"}); };
  EXPECT_THAT(plan().out, HasSubstr("of a typical core"));
  const ProgramResult measured = run(folder, {"plan", "--calibrate"}, few);
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("kept in " + (folder / "cache")));
  const json document = json::parse(plan().out);
  EXPECT_THAT(document.at("assumptions").dump(), HasSubstr("measured on this machine"));
  EXPECT_GT(document.at("step_s").get<double>(), 0);
  // A damaged file is no reason not to plan.
  for (const auto& file : fs::directory_iterator(folder / "cache")) fs::resize_file(file, 100);
  EXPECT_THAT(plan().out, HasSubstr("of a typical core"));
}

}  // namespace
}  // namespace lockstep::test
