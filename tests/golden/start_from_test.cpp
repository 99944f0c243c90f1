// What a run starts from: somebody's weights, a checkpoint with a name, a checkpoint of another
// configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRun = R"(
[run]
steps = 4
[model]
family = "mlp"
layers = 2
width = 16
[data]
format = "synthetic"
train_samples = 256
[batch]
micro_batch = 8
[optimizer]
name = "adamw"
lr = 0.01
[checkpoint]
every = 2
)";

class StartFrom : public testing::Test {
 protected:
  void SetUp() override { write_file(folder_ / "run.toml", kRun); }

  ProgramResult lockstep(std::vector<std::string> words) const {
    words.insert(words.begin(), program("lockstep"));
    ProgramOptions options;
    options.extra_env = {"LOCKSTEP_TAGS=" + folder_ / "tags"};
    return run_program(words, options);
  }

  /// Two ranks, in the run directory `name`.
  ProgramResult train(const std::string& name, std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"train", folder_ / "run.toml", "--nproc-per-node", "2",
                                 "--run-dir", folder_ / name});
    return lockstep(words);
  }

  json summary(const std::string& name) const {
    return json::parse(read_file(folder_.path() / name / "summary.json"), nullptr, false);
  }

  TemporaryFolder folder_;
};

/// Steps so short that no bit of a weight changes.
const std::vector<std::string> kStill{"--set", "optimizer.lr=1e-30",      "--set", "run.steps=1",
                                      "--set", "optimizer.weight_decay=0"};

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(StartFrom, WeightsOfEveryFormatAreThoseThatWereSaved) {
  ASSERT_EQ(train("first").exit_code, 0);
  const std::string expected = summary("first")["parameters_sha256"];
  for (const char* file : {"w.safetensors", "w.pt", "dcp"}) {
    std::vector<std::string> convert{"ckpt", "convert", folder_ / "first", folder_ / file};
    if (std::string(file) == "dcp") convert = with(convert, {"--to", "dcp"});
    const auto made = lockstep(convert);
    ASSERT_EQ(made.exit_code, 0) << made.describe();
    const auto run = train(std::string("from-") + file,
                           with(kStill, {"--set", "model.weights=" + folder_ / file}));
    ASSERT_EQ(run.exit_code, 0) << run.describe();
    EXPECT_THAT(run.out + run.err, HasSubstr("starting from the weights of " + folder_ / file));
    EXPECT_EQ(summary(std::string("from-") + file)["parameters_sha256"], expected) << file;
  }
}

TEST_F(StartFrom, WeightsThatAreNotTheModelsAreRefusedWithAllThatDiffers) {
  ASSERT_EQ(train("first").exit_code, 0);
  ASSERT_EQ(lockstep({"ckpt", "convert", folder_ / "first", folder_ / "w.safetensors"}).exit_code,
            0);
  const std::vector<std::string> other{"--set", "model.weights=" + folder_ / "w.safetensors",
                                       "--set", "model.width=24"};
  const auto refused = train("other", other);
  EXPECT_EQ(refused.exit_code, 4) << refused.describe();
  EXPECT_THAT(refused.err, HasSubstr("LS-5014"));
  EXPECT_THAT(refused.err, HasSubstr("instead of"));
  EXPECT_THAT(refused.err, HasSubstr("model.weights_partial"));
  const auto gone = train("gone", {"--set", "model.weights=" + folder_ / "nowhere.pt"});
  EXPECT_EQ(gone.exit_code, 4) << gone.describe();
  EXPECT_THAT(gone.err, HasSubstr("nowhere.pt"));
}

TEST_F(StartFrom, ARunThatGoesOnKeepsTheWeightsOfItsCheckpoint) {
  ASSERT_EQ(train("first").exit_code, 0);
  ASSERT_EQ(lockstep({"ckpt", "convert", folder_ / "first", folder_ / "w.safetensors"}).exit_code,
            0);
  ASSERT_EQ(train("plain", {"--set", "run.steps=6"}).exit_code, 0);
  const std::vector<std::string> weights{"--set", "model.weights=" + folder_ / "w.safetensors"};
  const auto on = train("first", with(weights, {"--set", "run.steps=6"}));
  ASSERT_EQ(on.exit_code, 0) << on.describe();
  EXPECT_THAT(on.out + on.err, Not(HasSubstr("starting from the weights")));
  EXPECT_EQ(summary("first")["state_sha256"], summary("plain")["state_sha256"]);
}

TEST_F(StartFrom, ATagIsACheckpointToResumeFromAsLongAsItsFilesAreWhatTheyWere) {
  ASSERT_EQ(train("first").exit_code, 0);
  ASSERT_EQ(train("long", {"--set", "run.steps=6"}).exit_code, 0);
  const fs::path step = folder_.path() / "first/checkpoints/step-2";
  ASSERT_EQ(lockstep({"ckpt", "tag", "add", "good", step.string()}).exit_code, 0);
  const auto on = train("second", {"--resume", "good", "--set", "run.steps=6"});
  ASSERT_EQ(on.exit_code, 0) << on.describe();
  EXPECT_THAT(on.out + on.err, HasSubstr("going on from " + step.string() + " (step 2)"));
  EXPECT_EQ(summary("second")["state_sha256"], summary("long")["state_sha256"]);

  std::ofstream(step / "manifest.json", std::ios::app) << "\n";
  const auto changed = train("third", {"--resume", "good"});
  EXPECT_EQ(changed.exit_code, 4) << changed.describe();
  EXPECT_THAT(changed.err, HasSubstr("LS-5017"));
  const auto unknown = train("third", {"--resume", "goood"});
  EXPECT_EQ(unknown.exit_code, 2) << unknown.describe();
  EXPECT_THAT(unknown.err, HasSubstr("no such tag"));
  EXPECT_FALSE(fs::exists(folder_.path() / "third"));
}

/// Case C13: PyTorch's optimizers refuse a state whose groups were cut otherwise.
TEST_F(StartFrom, MomentsAreThoseOfTheirParametersHoweverTheGroupsAreCut) {
  const std::vector<std::string> one_group{"--set", "optimizer.decay=all", "--set",
                                           "optimizer.weight_decay=1e-30"};
  ASSERT_EQ(train("whole", with(one_group, {"--set", "run.steps=6"})).exit_code, 0);
  ASSERT_EQ(train("cut", one_group).exit_code, 0);
  const auto on = train("cut", {"--set", "run.steps=6", "--set", "optimizer.decay=matrices",
                                "--set", "optimizer.weight_decay=1e-30"});
  ASSERT_EQ(on.exit_code, 0) << on.describe();
  EXPECT_THAT(on.out + on.err, HasSubstr("optimizer.decay is"));
  EXPECT_EQ(summary("cut")["state_sha256"], summary("whole")["state_sha256"])
      << "so little decay changes no bit: only lost moments could";
}

TEST_F(StartFrom, AChangedConfigurationIsClassedKeyByKey) {
  ASSERT_EQ(train("run").exit_code, 0);
  const auto refused =
      train("run", {"--set", "run.steps=6", "--set", "run.seed=9", "--set", "optimizer.lr=0.02"});
  EXPECT_EQ(refused.exit_code, 2) << refused.describe();
  EXPECT_THAT(refused.err, HasSubstr("LS-5021"));
  EXPECT_THAT(refused.err, HasSubstr("run.seed"));
  EXPECT_THAT(refused.err, HasSubstr("--allow-change run.seed"));
  EXPECT_THAT(refused.err, Not(HasSubstr("optimizer.lr")));
  const auto allowed = train("run", {"--set", "run.steps=6", "--set", "run.seed=9", "--set",
                                     "optimizer.lr=0.02", "--allow-change", "run.seed"});
  ASSERT_EQ(allowed.exit_code, 0) << allowed.describe();
  EXPECT_THAT(allowed.out + allowed.err, HasSubstr("run.seed is 9"));
  EXPECT_THAT(allowed.out + allowed.err, HasSubstr("optimizer.lr is 0.02"));
  const auto wrong = train("run", {"--allow-change", "run.sed"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.describe();
  EXPECT_THAT(wrong.err, HasSubstr("run.seed"));
  const auto never = train("run", {"--allow-change", "model.width"});
  EXPECT_EQ(never.exit_code, 2) << never.describe();
  EXPECT_THAT(never.err, HasSubstr("cannot be allowed"));
  const auto impossible = train("run", {"--set", "model.width=8"});
  EXPECT_EQ(impossible.exit_code, 2) << impossible.describe();
  EXPECT_THAT(impossible.err, HasSubstr("LS-5006"));
}

}  // namespace
}  // namespace lockstep::test
