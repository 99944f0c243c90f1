// Limits of the shell and closed or full outputs: an exit code of the contract and one plain line.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

const TinyRun kRun{.run = "steps = 3\n", .data = "train_samples = 64\n"};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Limits : public TinyRunTest {
 protected:
  Limits() : TinyRunTest(kRun) {}

  /// Runs `lockstep WORDS` in a shell after `before`; WORDS may redirect. RUN is a run file.
  ProgramResult shell(const std::string& before, const std::string& words) const {
    return run_program({"/bin/sh", "-c",
                        "RUN=" + (folder_ / "run.toml") + "; DIR=" + (folder_ / "run") + "; " +
                            before + "; exec " + program("lockstep") + " " + words});
  }
};

TEST_F(Limits, TooFewOpenFilesAreAFaultOfTheEnvironmentThatNamesTheLimit) {
  for (const char* files : {"7", "8", "10", "12"}) {
    const auto result = shell("ulimit -n " + std::string(files), "train $RUN --run-dir $DIR");
    EXPECT_EQ(result.exit_code, 3) << files << ": " << result.describe();
    EXPECT_TRUE(has(result.err, "error LS-3")) << files << ": " << result.describe();
    EXPECT_FALSE(has(result.err, "LS-9001")) << files << ": " << result.describe();
  }
}

TEST_F(Limits, FilesThatMayNotGrowAreAnErrorNotADeath) {
  const auto result = shell("ulimit -f 1", "train $RUN --run-dir $DIR");
  EXPECT_EQ(result.exit_code, 3) << result.describe();
}

TEST_F(Limits, TooLittleMemoryIsAFaultOfTheEnvironmentAtEverySize) {
  for (const char* kib : {"24000", "60000", "440000", "480000"}) {
    const auto result =
        shell("ulimit -v " + std::string(kib), "train $RUN --run-dir $DIR --nproc-per-node 2");
    EXPECT_FALSE(has(result.err, "LS-9001")) << kib << ": " << result.describe();
    EXPECT_FALSE(has(result.err, "firewall")) << kib << ": " << result.describe();
    EXPECT_FALSE(has(result.err, "terminate called")) << kib << ": " << result.describe();
    EXPECT_EQ(result.signal, 0) << kib << ": " << result.describe();
  }
}

TEST_F(Limits, ASmallStackIsEnoughForTheFront) {
  const auto result = shell("ulimit -s 128", "--version");
  EXPECT_EQ(result.exit_code, 0) << result.describe();
}

TEST_F(Limits, AResultThatDoesNotArriveIsAFaultOfTheEnvironment) {
  for (const char* words :
       {"plan $RUN --json", "--version --json", "help", "train $RUN --run-dir $DIR --json"}) {
    const auto result = shell(":", std::string(words) + " >/dev/full");
    EXPECT_EQ(result.exit_code, 3) << words << ": " << result.describe();
    EXPECT_TRUE(has(result.err, "error LS-3008")) << words << ": " << result.describe();
  }
}

TEST_F(Limits, WhatIsPrintedWithStandardOutputClosedGoesIntoNoFileOfTheRun) {
  const auto result = shell(":", "train $RUN --run-dir $DIR --json >&- 2>&-");
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  for (const char* file : {"run/events.jsonl", "run/summary.json"}) {
    EXPECT_TRUE(read_file(folder_ / file).starts_with("{")) << file << result.describe();
  }
}

}  // namespace
}  // namespace lockstep::test
