// fp16 as whole programs: a run whose scale finds its size, one that goes on with it, and one that
// no scale helps.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

// The rate is so high that gradients overflow now and then, and clipping keeps the run together.
const TinyRun kWild{.run = "steps = 40\n",
                    .more =
                        "[optimizer]\nlr = 20\nclip_grad_norm = 1\n"
                        "[precision]\ncompute = \"fp16\"\n"
                        "[parallel]\nvirtual_ranks = 2\n"
                        "[checkpoint]\nevery = 10\nkeep = 10\n"};

class Fp16 : public TinyRunTest {
 protected:
  Fp16() : TinyRunTest(kWild) {}

  ProgramResult train(const std::string& run_dir, const std::vector<std::string>& more) const {
    return run_program(command(more, run_dir));
  }
  [[nodiscard]] std::string text_of(const std::string& run_dir, const std::string& file) const {
    return read_file(folder_.path() / run_dir / file);
  }
  [[nodiscard]] nlohmann::json summary(const std::string& run_dir) const {
    return nlohmann::json::parse(text_of(run_dir, "summary.json"), nullptr, false);
  }
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& run_dir) const {
    std::vector<nlohmann::json> steps;
    std::istringstream lines(text_of(run_dir, "events.jsonl"));
    for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line));
    return steps;
  }
};

TEST_F(Fp16, OneAndTwoRanksSkipTheSameStepsAndAResumedRunGoesOnWithTheScale) {
  const ProgramResult one = train("one", {"--nproc-per-node", "1"});
  EXPECT_EQ(one.exit_code, 0) << one.describe();
  const ProgramResult two = train("two", {"--nproc-per-node", "2"});
  EXPECT_EQ(two.exit_code, 0) << two.describe();
  EXPECT_GT(summary("one")["skipped_steps"], 0) << "nothing overflowed: the test shows nothing";
  EXPECT_EQ(summary("two")["state_sha256"], summary("one")["state_sha256"]);
  const std::string from = folder_ / "two/checkpoints/step-20";
  const ProgramResult rest = train("rest", {"--nproc-per-node", "2", "--resume", from});
  EXPECT_EQ(rest.exit_code, 0) << rest.describe();
  EXPECT_EQ(summary("rest")["state_sha256"], summary("one")["state_sha256"]);
}

TEST_F(Fp16, ARunThatNoScaleHelpsIsToldEarlyAndEndsNamingScaleRankAndBlock) {
  const ProgramResult result =
      train("bad", {"--nproc-per-node", "2", "--set", "optimizer.lr=1e6", "--set",
                    "optimizer.clip_grad_norm=0", "--set", "recovery.on_nan=skip"});
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_NE(result.err.find("LS-7104: 10 steps in a row were not finite in fp16; the loss scale"),
            std::string::npos)
      << result.describe();
  EXPECT_NE(result.err.find("first on rank 0: output of layers.0"), std::string::npos)
      << result.describe();
  EXPECT_NE(result.out.find("4 of the last 4 steps overflowed in fp16"), std::string::npos)
      << result.describe();
  const std::vector<nlohmann::json> steps = events("bad");
  ASSERT_GT(steps.size(), 10U);
  const nlohmann::json& last = steps.back();
  EXPECT_EQ(last["skipped"], true);
  EXPECT_EQ(last["not_finite"]["where"], "output of layers.0");
  EXPECT_LT(last["loss_scale"], steps.front()["loss_scale"]);
  EXPECT_TRUE(steps[steps.size() - 7].contains("warning")) << "at the fourth of ten skips";
}

}  // namespace
}  // namespace lockstep::test
