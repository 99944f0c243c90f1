// Every example trains, by the command its page names, at reduced length.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

using Settings = std::vector<std::string>;

/// Trains examples/<name> on two ranks with `settings` and gives back its summary.json.
nlohmann::json train_example(const std::string& name, const Settings& settings) {
  const TemporaryFolder folder;
  std::vector<std::string> argv{program("lockstep"), "train", "examples/" + name + "/run.toml",
                                "--nproc-per-node",  "2",     "--run-dir",
                                folder / "run"};
  for (const auto& setting : settings) {
    argv.emplace_back("--set");
    argv.push_back(setting);
  }
  const ProgramResult result = run_program(argv);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const auto summary =
      nlohmann::json::parse(read_file(folder / "run/summary.json"), nullptr, false);
  EXPECT_TRUE(summary.is_object()) << result.describe();
  return summary;
}

TEST(Examples, TheMlpLearnsFashionMnist) {
  const auto summary =
      train_example("mlp", {"run.steps=60", "data.train_samples=8192", "data.eval_samples=1000"});
  EXPECT_EQ(summary.at("status"), "done");
  EXPECT_EQ(summary.at("steps"), 60);
  EXPECT_GT(summary.at("eval").at("accuracy").get<double>(), 0.5);  // ten classes: chance is 0.1
}

TEST(Examples, TheResNetTrainsOnFashionMnist) {
  const auto summary = train_example("fashion", {"run.steps=3", "batch.micro_batch=16",
                                                 "data.train_samples=256", "data.eval_samples=64"});
  EXPECT_EQ(summary.at("steps"), 3);
  EXPECT_GT(summary.at("samples_per_s").get<double>(), 0.0);
}

TEST(Examples, TheGptTrainsOnTheBibleAndReportsBitsPerByte) {
  const auto summary = train_example(
      "gpt_bible", {"run.steps=20", "run.eval_every=0", "model.layers=2", "model.width=64",
                    "model.heads=2", "data.seq_len=64", "data.eval_samples=64"});
  EXPECT_EQ(summary.at("steps"), 20);
  EXPECT_LT(summary.at("eval").at("bits_per_byte").get<double>(), 8.0);  // no knowledge: 8
  EXPECT_GT(summary.at("tokens_per_s").get<double>(), 0.0);
}

/// One image a class of CIFAR-10's binary form, whose planes all have the value of its class.
std::string cifar_records() {
  std::string bytes;
  for (char label = 0; label < 10; ++label) {
    bytes += label + std::string(3072, static_cast<char>(25 * label));
  }
  return bytes;
}

TEST(Examples, TheResNet18TrainsOnCifarFiles) {
  const TemporaryFolder data;
  for (int i = 1; i <= 5; ++i) {
    write_file(data / ("data_batch_" + std::to_string(i) + ".bin"), cifar_records());
  }
  write_file(data / "test_batch.bin", cifar_records());
  const auto summary = train_example(
      "resnet18_cifar", {"run.steps=2", "batch.micro_batch=4", "data.train=" + data.path().string(),
                         "data.eval=" + data.path().string()});
  EXPECT_EQ(summary.at("steps"), 2);
  EXPECT_TRUE(summary.at("eval").contains("accuracy"));
}

}  // namespace
}  // namespace lockstep::test
