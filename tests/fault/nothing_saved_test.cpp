// A run that is stopped before its first step is done: exit code 75 only when the state is saved,
// the checkpoint that holds it is the one named, and --json is one document.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/lone_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kCheckpoints = "[checkpoint]\nevery = 3\n";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A finished run of six steps, checkpoints at 3 and 6, that can be made to hang while it reads its
/// data.
class StoppedWhileLoading : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "text.sh",
               "cd " + folder_.path().string() +
                   "\nif [ -e hang ]; then touch loading; exec sleep 1000; fi\n"
                   "yes 'In the beginning' | head -c 4000\n");
    write_file(folder_ / "run.toml",
               "[run]\nsteps = 6\n[model]\nfamily = \"gpt\"\nlayers = 1\nwidth = 16\nheads = 1\n"
               "[data]\nformat = \"text\"\nseq_len = 8\ntrain = \"!sh " +
                   (folder_ / "text.sh") + "\"\n[batch]\nmicro_batch = 2\n" + kCheckpoints);
    const ProgramResult whole = run_program(command({"--quiet"}));
    ASSERT_EQ(whole.exit_code, 0) << whole.describe();
    write_file(folder_ / "hang", "");
  }

  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> argv{program("lockstep"), "train", folder_ / "run.toml", "--run-dir",
                                  folder_ / "run"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  /// Goes on for more steps, with --json, and is stopped while it loads.
  [[nodiscard]] ProgramResult stop(std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "run.steps=20", "--json"});
    fs::remove(folder_ / "loading");
    RunningProgram front(command(more));
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / "loading"); })) << front.err_so_far();
    front.send_signal(SIGTERM);
    return front.wait();
  }
  /// In place of the summary, with what people are told.
  void expect_one_document(const ProgramResult& result) const {
    const json document = json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(document.is_object()) << result.describe();
    ASSERT_EQ(document.at("errors").size(), 1U) << result.out;
    const json& error = document.at("errors").front();
    EXPECT_EQ(error.at("code"), "LS-7057");
    EXPECT_TRUE(has(result.err, error.at("what"))) << result.describe();
    EXPECT_TRUE(has(error.at("fix"), "--run-dir " + (folder_ / "run"))) << error;
  }

  TemporaryFolder folder_;
};

TEST_F(StoppedWhileLoading, TheStateIsThatOfTheNewestCheckpointOnlyWhereTheRunGoesOnFromIt) {
  const ProgramResult newest = stop({});
  EXPECT_EQ(newest.exit_code, 75) << newest.describe();
  EXPECT_TRUE(has(newest.err, "the state is that of checkpoint step-6; ")) << newest.describe();
  expect_one_document(newest);

  const ProgramResult older = stop({"--resume", "step-3"});
  EXPECT_EQ(older.exit_code, 1) << older.describe();
  EXPECT_TRUE(has(older.err, "nothing was saved: no step had been finished")) << older.describe();
  EXPECT_TRUE(has(older.err, "--resume step-3")) << older.describe();
  EXPECT_FALSE(has(older.err, "step-6")) << older.describe();
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-6/manifest.json"));
  expect_one_document(older);
}

TEST_F(StoppedWhileLoading, ARankOfAnotherStarterSaysItselfWhatIsLeftAndEndsSo) {
  struct Case {
    std::vector<std::string> words;
    int exit_code;
    const char* says;
  };
  for (const Case& one :
       {Case{{}, 75, "the state is that of checkpoint step-6"},
        Case{{"--resume", "step-3"}, 1, "nothing was saved: no step had been finished"}}) {
    fs::remove(folder_ / "loading");
    std::vector<std::string> words = one.words;
    words.insert(words.end(), {"--set", "run.steps=20"});
    const LoneRanks ranks(1, command(words));
    ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "loading"); }))
        << ranks[0].err_so_far();
    ranks[0].send_signal(SIGTERM);
    const ProgramResult result = ranks[0].wait();
    EXPECT_EQ(result.exit_code, one.exit_code) << result.describe();
    EXPECT_TRUE(has(result.err, one.says)) << result.describe();
  }
}

const TinyRun kRun{.run = "steps = 6\n", .more = kCheckpoints};

class StoppedInTheFirstStep : public TinyRunTest {
 protected:
  StoppedInTheFirstStep() : TinyRunTest(kRun) {}
};

TEST_F(StoppedInTheFirstStep, AStateFromTheCheckpointOfAnotherRunIsSavedInItsOwnRunDirectory) {
  const ProgramResult whole = run_program(command({"--quiet"}, "other"));
  ASSERT_EQ(whole.exit_code, 0) << whole.describe();
  std::vector<std::string> words{"--resume",       folder_ / "other/checkpoints/step-3",
                                 "--allow-change", "batch.global_batch",
                                 "--allow-change", "data.train_samples"};
  const auto seconds_a_step = set_words({"batch.global_batch=250000", "data.train_samples=300000"});
  words.insert(words.end(), seconds_a_step.begin(), seconds_a_step.end());
  RunningProgram front(command(words));
  ASSERT_TRUE(eventually([&] {  // the rank is about to train
    return fs::exists(folder_ / "run/plan.json");
  })) << front.err_so_far();
  front.send_signal(SIGTERM);
  const ProgramResult result = front.wait();
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_TRUE(has(result.err, "with the state saved at step 3;")) << result.describe();
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-3/manifest.json")) << result.describe();
}

}  // namespace
}  // namespace lockstep::test
