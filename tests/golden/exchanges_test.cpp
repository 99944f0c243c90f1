// Ways to send less, through the program: what they cost in loss, and that plans tell their bytes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

using Settings = std::vector<std::string>;

/// A small GPT on the text of the example, two ranks.
nlohmann::json train(const std::string& run_dir, Settings settings, const Settings& flags = {}) {
  settings.insert(settings.begin(), {"run.eval_every=0", "model.layers=2", "model.width=64",
                                     "model.heads=2", "data.seq_len=64", "data.eval_samples=256",
                                     "precision.compute=fp32", "schedule.warmup_steps=10"});
  std::vector<std::string> argv{
      program("lockstep"), "train", "examples/gpt_bible/run.toml", "--nproc-per-node", "2",
      "--run-dir",         run_dir};
  for (const std::string& setting : settings) {
    argv.emplace_back("--set");
    argv.push_back(setting);
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  const ProgramResult result = run_program(argv);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const auto summary = nlohmann::json::parse(read_file(run_dir + "/summary.json"), nullptr, false);
  EXPECT_TRUE(summary.is_object()) << result.describe();
  return summary;
}

double eval_loss(const nlohmann::json& summary) {
  return summary.at("eval").at("loss").get<double>();
}

/// The plan tells what is sent to within a hundredth, unless told otherwise.
void expect_planned_bytes(const nlohmann::json& summary, double tolerance = 0.01) {
  const auto planned = summary.at("comm_bytes").at("planned").get<double>();
  const auto measured = summary.at("comm_bytes").at("measured").get<double>();
  EXPECT_NEAR(measured / planned, 1, tolerance) << measured << " bytes, planned " << planned;
}

/// So does it what is kept for it.
void expect_planned_memory(const nlohmann::json& summary, const char* category) {
  const nlohmann::json& memory = summary.at("memory").at(category);
  const auto planned = memory.at("planned_bytes").get<double>();
  EXPECT_NEAR(memory.at("measured_bytes").get<double>() / planned, 1, 0.01) << category << memory;
}

class WaysToSendLess : public testing::Test {
 protected:
  nlohmann::json train_with(const std::string& name, Settings settings) {
    settings.insert(settings.begin(), "run.steps=72");
    return train(folder_ / name, std::move(settings));
  }
  const TemporaryFolder folder_;
};

TEST_F(WaysToSendLess, EndWithinTwoPercentOfTheLossAndSendWhatThePlanSays) {
  // Above the 2 MiB that travel whole with the control numbers.
  const auto train_large = [&](const std::string& name, Settings settings) {
    settings.insert(settings.begin(), {"model.width=192", "model.heads=3"});
    return train_with(name, std::move(settings));
  };
  const auto whole = train_large("whole", {});
  expect_planned_bytes(whole);
  const auto expect_near = [&](const nlohmann::json& summary, double share, double bytes_share,
                               double tolerance) {
    EXPECT_LT(eval_loss(summary) / eval_loss(whole), 1 + share);
    expect_planned_bytes(summary, tolerance);
    const auto bytes = [](const nlohmann::json& s) {
      return s.at("comm_bytes").at("measured").get<double>();
    };
    EXPECT_LT(bytes(summary), bytes_share * bytes(whole));
  };
  expect_near(train_large("bf16", {"precision.reduce=bf16"}), 0.005, 0.9, 0.01);
  expect_near(train_large("fp16", {"precision.reduce=fp16"}), 0.005, 0.9, 0.01);
  // The first step, which is not counted, is one without an average.
  expect_near(train_large("local", {"parallel.local_steps=8"}), 0.02, 0.5, 0.02);
}

TEST_F(WaysToSendLess, PowerSgdEndsWithinTwoPercentOfTheLossWithATwentiethOfTheBytes) {
  const Settings larger{"run.steps=200", "model.layers=3",   "model.width=128",
                        "model.heads=4", "data.seq_len=128", "precision.compute=bf16"};
  const auto whole = train_with("whole", larger);
  Settings thin = larger;
  thin.emplace_back("parallel.gradient_compression=powersgd");
  const auto compressed = train_with("powersgd", thin);
  expect_planned_bytes(compressed);
  expect_planned_memory(compressed, "communication");
  expect_planned_memory(compressed, "gradients");
  EXPECT_LT(eval_loss(compressed) / eval_loss(whole), 1.02);
  EXPECT_LT(compressed.at("comm_bytes").at("measured").get<double>(),
            whole.at("comm_bytes").at("measured").get<double>() / 15);
}

TEST_F(WaysToSendLess, LocalStepsResumeExactlyFromAnAverage) {
  const Settings settings{"run.steps=16", "parallel.local_steps=4", "checkpoint.every=8",
                          "checkpoint.keep=5"};
  const auto undisturbed = train(folder_ / "first", settings);
  const std::string saved = folder_ / "first/checkpoints/step-8";
  const auto resumed = train(folder_ / "second", settings, {"--resume", saved});
  EXPECT_EQ(resumed.at("state_sha256"), undisturbed.at("state_sha256"));
}

}  // namespace
}  // namespace lockstep::test
