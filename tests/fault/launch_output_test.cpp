// lockstep launch when what its ranks print cannot be written: full devices and disks, readers that
// have left, limits of the shell.
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
using testing::HasSubstr;
using testing::Not;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class LaunchOutput : public testing::Test {
 protected:
  /// `lockstep launch WORDS` in a shell after `before`; WORDS may redirect. $D is a folder of this
  /// test.
  [[nodiscard]] ProgramResult shell(const std::string& words, const std::string& before = ":",
                                    const std::string& behind = "") const {
    ProgramOptions options;
    options.extra_env = {"D=" + folder_.path().string(), "OMP_NUM_THREADS=1"};
    return run_program(
        {"/bin/sh", "-c", before + "; " + program("lockstep") + " launch " + words + behind},
        options);
  }

  TemporaryFolder folder_;
};

const std::string kPrints = "--no-python sh -c 'echo one; echo two; echo three >&2'";

TEST_F(LaunchOutput, AFullStandardOutputIsToldOnceAndTheJobEndsWithThree) {
  for (const char* flags : {"", "--tee 3 ", "--tee 1 --log-dir /dev/null ", "--nproc-per-node 2 ",
                            "--redirects 2 ", "--hosts 127.0.0.1:2 "}) {
    const auto result = shell(flags + kPrints + " >/dev/full");
    EXPECT_EQ(result.exit_code, 3) << flags << result.describe();
    EXPECT_EQ(count_of(result.err, "standard output: error LS-3008"), 1)
        << flags << result.describe();
  }
}

TEST_F(LaunchOutput, AFullStandardErrorEndsTheJobWithThree) {
  for (const char* flags : {"", "--tee 3 ", "--hosts 127.0.0.1:1 "}) {
    const auto result = shell(flags + kPrints + " 2>/dev/full");
    EXPECT_EQ(result.exit_code, 3) << flags << result.describe();
    EXPECT_THAT(result.out, HasSubstr("two\n")) << flags;
  }
}

TEST_F(LaunchOutput, LogFilesGoOnWhereStandardOutputIsFull) {
  const auto result =
      shell("--tee 3 --log-dir $D/logs --rdzv-id job " + kPrints + " >/dev/full 2>&1");
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_EQ(read_file(folder_ / "logs/job/attempt_0/0/stdout.log"), "one\ntwo\n");
  EXPECT_EQ(read_file(folder_ / "logs/job/attempt_0/0/stderr.log"), "three\n");
}

TEST_F(LaunchOutput, AFailureOfARankIsWorseThanItsLostOutput) {
  const auto result = shell("--no-python sh -c 'echo one; exit 7' >/dev/full");
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("LS-3008"));
  EXPECT_THAT(result.err, HasSubstr("ended with exit code 7"));
}

TEST_F(LaunchOutput, ARankIsNotHeldUpByWhatIsFull) {
  const auto result = shell(
      "--no-python sh -c 'head -c 30000000 /dev/zero | tr \"\\0\" \"\\n\"; touch $D/done' "
      ">/dev/full");
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_TRUE(fs::exists(folder_ / "done"));
  EXPECT_EQ(count_of(result.err, "LS-3008"), 1) << result.describe();
}

TEST_F(LaunchOutput, AReaderThatHasLeftIsNoFaultOfTheJob) {
  // The ranks print when the reader has gone, and leave a file when they have.
  const std::string late = "while [ ! -e $D/left ]; do sleep 0.01; done; echo one; echo two >&2; ";
  const std::string reader = "; echo $? >$D/code) 2>&1 | (exec <&-; touch $D/left)";
  for (const char* flags : {"", "--tee 3 ", "--hosts 127.0.0.1:1 ", "--json "}) {
    for (const auto& [end, code] :
         {std::pair("touch $D/done", "0\n"), std::pair("exit 7", "1\n")}) {
      for (const char* name : {"left", "done", "code"}) fs::remove(folder_ / name);
      const auto result = shell(flags + ("--no-python sh -c '" + late) + end + "'", "(:", reader);
      EXPECT_EQ(read_file(folder_ / "code"), code) << flags << end << result.describe();
    }
  }
}

TEST_F(LaunchOutput, ALogFileThatCannotGrowIsToldOnceAndTheJobEndsWithThree) {
  const std::string prints = "--no-python sh -c 'head -c 100000 /dev/zero'";
  for (const char* flags : {"--redirects 1 ", "--tee 1 ", "--redirects 1 --nproc-per-node 3 "}) {
    const auto result =
        shell(flags + ("--log-dir $D/logs " + prints) + " >/dev/null", "ulimit -f 8");
    EXPECT_EQ(result.exit_code, 3) << flags << result.describe();
    EXPECT_EQ(count_of(result.err, "stdout.log: error LS-3009"), 1) << flags << result.describe();
  }
}

TEST_F(LaunchOutput, AsJsonWhatWasLostIsTheDocument) {
  const auto result = shell("--json --no-python echo one 2>/dev/full");
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["errors"][0]["code"], "LS-3008");
  EXPECT_EQ(document["errors"][0]["where"], "standard error");
}

TEST_F(LaunchOutput, ManyRanksFitIntoALowLimitOfOpenFilesAndKeepItThemselves) {
  const std::string tell = "--no-python sh -c 'ulimit -Sn; ulimit -Hn'";
  for (const char* flags : {"--nproc-per-node 40 ", "--hosts 127.0.0.1:40 "}) {
    const auto result = shell(flags + tell, "ulimit -Sn 64; ulimit -Hn 4000");
    EXPECT_EQ(result.exit_code, 0) << flags << result.describe();
    EXPECT_EQ(count_of(result.out, "64\n"), 40) << flags << result.describe();
    EXPECT_EQ(count_of(result.out, "4000\n"), 40) << flags;
  }
}

TEST_F(LaunchOutput, AHardLimitThatIsTooLowIsNamed) {
  const auto result = shell("--nproc-per-node 40 --no-python true", "ulimit -n 64");
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("ulimit -n, now 64"));
}

}  // namespace
}  // namespace lockstep::test
