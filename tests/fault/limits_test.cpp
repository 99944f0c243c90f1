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

/// The least memory with which the loader and LibTorch, which know no error but to abort, let a
/// rank come to its first line; found in steps of 8 MB.
int kib_for_the_first_line_of_a_rank() {
  int too_little = 30'000;
  int enough = 2'000'000;
  while (enough - too_little > 8'000) {
    const int kib = (enough + too_little) / 2;
    const auto result = run_program(
        {"/bin/sh", "-c",
         "ulimit -c 0; ulimit -v " + std::to_string(kib) + "; exec " + program("lockstep-worker")});
    (result.exit_code == 2 ? enough : too_little) = kib;  // "no job named"
  }
  return enough + 4'000;  // so much it may vary from start to start
}

TEST_F(Limits, TooLittleMemoryIsAFaultOfTheEnvironmentAtEverySize) {
  const auto train_with = [&](int kib) {
    return shell("ulimit -v " + std::to_string(kib),
                 "train $RUN --run-dir $DIR --nproc-per-node 2");
  };
  for (const int kib : {20'000, 24'000}) {  // the front itself is refused
    const auto result = train_with(kib);
    EXPECT_EQ(result.exit_code, 3) << kib << ": " << result.describe();
  }
  const int first_line = kib_for_the_first_line_of_a_rank();
  for (const int kib : {first_line, first_line + 12'000, first_line + 28'000}) {
    const auto result = train_with(kib);
    const bool fits = result.exit_code == 0 && kib > first_line;
    EXPECT_TRUE(fits || result.exit_code == 3) << kib << ": " << result.describe();
    EXPECT_TRUE(fits || has(result.err, "error LS-")) << kib << ": " << result.describe();
    for (const char* misleading : {"LS-9001", "firewall", "terminate called"}) {
      EXPECT_FALSE(has(result.err, misleading)) << kib << ": " << result.describe();
    }
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
