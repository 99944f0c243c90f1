// The contract of docs/architecture.md, "Same numbers", on whole programs: 50 steps in fp32 with
// four virtual ranks end in one state, on any number of ranks and however often they were
// interrupted.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

/// 190 samples in batches of 16: an epoch is 12 steps, the last of 14 samples.
constexpr const char* kCommon = R"(
[data]
format = "synthetic"
train_samples = 190
{data}
[batch]
global_batch = 16

[parallel]
virtual_ranks = 4
bucket_mib = 0.25
first_bucket_mib = 0.1

[checkpoint]
every = 1
keep = 60

[run]
steps = 50
)";

struct Case {
  const char* name;
  const char* model;
  const char* data;
};

constexpr Case kCases[] = {
    {"Mlp",
     "[model]\nfamily = \"mlp\"\nlayers = 3\nwidth = 128\n"
     "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nclip_grad_norm = 1.0\n",
     ""},
    {"ResNet20",
     "[model]\nfamily = \"resnet\"\ndepth = 20\nchannels = 1\nimage_size = 16\n"
     "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nweight_decay = 5e-4\n"
     "nesterov = true\n",
     ""},
    {"Gpt",
     "[model]\nfamily = \"gpt\"\nlayers = 3\nwidth = 96\nheads = 3\nvocab_size = 64\n"
     "dropout = 0.1\n"
     "[optimizer]\nname = \"adamw\"\nlr = 1e-3\nclip_grad_norm = 1.0\n",
     "seq_len = 24\n"},
};

std::string toml_of(const Case& c) {
  std::string common = kCommon;
  common.replace(common.find("{data}"), 6, c.data);
  return std::string(c.model) + common;
}

std::string hash_in(const std::string& run_dir) {
  const auto summary = nlohmann::json::parse(read_file(run_dir + "/summary.json"), nullptr, false);
  return summary.is_object() ? summary.value("state_sha256", "no hash")
                             : "no summary in " + run_dir;
}

class SameNumbers : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { write_file(folder_ / "run.toml", toml_of(GetParam())); }

  std::vector<std::string> command(int ranks, const std::string& run_dir) {
    return {program("lockstep"),  "train",
            folder_ / "run.toml", "--quiet",
            "--nproc-per-node",   std::to_string(ranks),
            "--run-dir",          run_dir};
  }

  /// Trains to the end. \returns the hash of the last state.
  std::string train(int ranks, const std::string& run_dir,
                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = command(ranks, run_dir);
    argv.insert(argv.end(), more.begin(), more.end());
    const ProgramResult result = run_program(argv);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    return hash_in(run_dir);
  }

  TemporaryFolder folder_;
};

TEST_P(SameNumbers, OneTwoAndFourRanksEndInOneState) {
  const std::string one = train(1, folder_ / "1");
  EXPECT_EQ(one.size(), 64U) << one;
  EXPECT_EQ(train(2, folder_ / "2"), one);
  EXPECT_EQ(train(4, folder_ / "4"), one);
}

TEST_P(SameNumbers, GoingOnFromAnyStepGivesTheUndisturbedState) {
  const std::string whole = train(1, folder_ / "whole");
  std::mt19937 random(20);
  std::vector<int> steps{12, 24};  // epoch borders
  while (steps.size() < 12) steps.push_back(1 + static_cast<int>(random() % 49));
  for (const int step : steps) {
    const std::string run_dir = folder_ / ("from-" + std::to_string(step));
    const std::string from = folder_ / ("whole/checkpoints/step-" + std::to_string(step));
    EXPECT_EQ(train(1 + step % 2, run_dir, {"--resume", from, "--set", "checkpoint.every=0"}),
              whole)
        << "from step " << step << " on " << 1 + step % 2 << " ranks";
  }
}

TEST_P(SameNumbers, AKillInsideAnAccumulationChangesNothing) {
  const std::string whole = train(1, folder_ / "whole");
  const std::string run_dir = folder_ / "killed";
  {
    RunningProgram running(command(1, run_dir));
    const auto seven_steps = [&] {
      const std::string events = read_file(run_dir + "/events.jsonl");
      return std::count(events.begin(), events.end(), '\n') >= 7;
    };
    ASSERT_TRUE(eventually(seven_steps, std::chrono::milliseconds(1))) << running.err_so_far();
    running.send_signal(SIGKILL);  // the rank goes with it, wherever its four micro-batches stand
    EXPECT_EQ(running.wait().signal, SIGKILL);
  }
  EXPECT_EQ(train(1, run_dir), whole);
}

/// Steps change the state while copies of it are written; a kill may find one half written.
TEST_P(SameNumbers, SavesBehindTheTrainingHoldTheStateOfTheirStep) {
  const std::vector<std::string> behind{"--set", "checkpoint.async=true"};
  const std::string whole = train(1, folder_ / "whole");
  EXPECT_EQ(train(2, folder_ / "behind", behind), whole);
  for (const int step : {31, 50}) {
    const std::string step_name = "/checkpoints/step-" + std::to_string(step);
    const std::string run_dir = folder_ / ("from-" + std::to_string(step));
    EXPECT_EQ(train(1, run_dir,
                    {"--resume", (folder_ / "behind") + step_name, "--set", "checkpoint.every=0"}),
              whole)
        << step;
  }
  const std::string run_dir = folder_ / "killed";
  {
    std::vector<std::string> argv = command(2, run_dir);
    argv.insert(argv.end(), behind.begin(), behind.end());
    RunningProgram running(argv);
    const auto seven_steps = [&] {
      const std::string events = read_file(run_dir + "/events.jsonl");
      return std::count(events.begin(), events.end(), '\n') >= 7;
    };
    ASSERT_TRUE(eventually(seven_steps, std::chrono::milliseconds(1))) << running.err_so_far();
    running.send_signal(SIGKILL);
    EXPECT_EQ(running.wait().signal, SIGKILL);
  }
  EXPECT_EQ(train(4, run_dir, behind), whole);
}

INSTANTIATE_TEST_SUITE_P(Models, SameNumbers, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::test
