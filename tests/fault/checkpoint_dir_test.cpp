// checkpoint.dir: a folder of checkpoints of a run's own choice belongs to one run at a time.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

const TinyRun kRun{.run = "steps = 6\n", .more = "[checkpoint]\nevery = 3\n"};

/// As a rank of a launcher that is not ours.
const std::vector<std::string> kLoneRank{"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"};

class CheckpointDir : public TinyRunTest {
 protected:
  CheckpointDir() : TinyRunTest(kRun) {}

  [[nodiscard]] std::string in(const std::string& folder) const {
    return "checkpoint.dir=" + (folder_ / folder);
  }
  [[nodiscard]] std::vector<std::string> command_in(const std::string& folder,
                                                    const std::string& run_dir,
                                                    std::vector<std::string> settings = {}) const {
    settings.push_back(in(folder));
    return command(set_words(settings), run_dir);
  }
  [[nodiscard]] std::vector<std::string> files_below(const std::string& folder) const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / folder)) {
      paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
};

TEST_F(CheckpointDir, BenchScalingLeavesItAlone) {
  const ProgramResult whole = run_program(command_in("kept", "run"));
  ASSERT_EQ(whole.exit_code, 0) << whole.describe();
  const auto before = files_below("kept");
  EXPECT_TRUE(fs::exists(folder_ / "kept/step-6/manifest.json"));
  const ProgramResult bench = run_program(
      {program("lockstep"), "bench", "scaling", folder_ / "run.toml", "--ranks", "1", "--steps",
       "4", "--warmup", "1", "--out", folder_ / "bench", "--set", in("kept")});
  EXPECT_EQ(bench.exit_code, 0) << bench.describe();
  EXPECT_EQ(files_below("kept"), before) << bench.describe();
}

TEST_F(CheckpointDir, ASecondJobInItIsRefusedAndTheFirstGoesOn) {
  const std::vector<std::string> for_long{"run.steps=10000000"};
  RunningProgram first(command_in("shared", "a", for_long));
  RunningProgram owner(command(set_words(for_long), "b"));  // its checkpoints are in b/checkpoints
  ASSERT_TRUE(eventually([&] { return has_done_step(4, "a"); })) << first.err_so_far();
  ASSERT_TRUE(eventually([&] { return has_done_step(4, "b"); })) << owner.err_so_far();
  const auto expect_refused = [](const ProgramResult& result, const RunningProgram& holder) {
    EXPECT_EQ(result.exit_code, 2) << result.describe();
    EXPECT_NE(result.err.find("error LS-1031"), std::string::npos) << result.describe();
    EXPECT_NE(result.err.find("in use by pid " + std::to_string(holder.pid())), std::string::npos)
        << result.describe();
    EXPECT_NE(result.err.find("checkpoint.dir"), std::string::npos) << result.describe();
  };
  for (const auto& env : {std::vector<std::string>{}, kLoneRank}) {
    expect_refused(run_program(command_in("shared", "c"), {.extra_env = env}), first);
    expect_refused(run_program(command_in("b/checkpoints", "c"), {.extra_env = env}), owner);
  }
  for (RunningProgram* running : {&first, &owner}) {
    running->send_signal(SIGTERM);
    const ProgramResult stopped = running->wait();
    EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
  }
}

}  // namespace
}  // namespace lockstep::test
