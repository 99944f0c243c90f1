// The completion of bash, driven as bash drives it: the line cut into words at '=' and ':' too.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

std::string quoted(const std::string& word) { return "'" + word + "'"; }

/// What bash would offer, a line each, after the options that were set for it. \param words of the
/// line as bash has cut it; the last one is being typed.
std::string offered(const std::string& line, const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += " " + quoted(word);
  const std::string folder = std::filesystem::path(program("lockstep")).parent_path();
  const std::string script = "PATH=" + quoted(folder) + ":$PATH\n" +
                             "source <(lockstep completion bash)\n"
                             "compopt() { printf '%s\\n' \"$*\"; }\n"
                             "COMP_WORDS=(" +
                             list + ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" +
                             "COMP_LINE=" + quoted(line) + " COMP_POINT=${#COMP_LINE}\n" +
                             "_lockstep\n"
                             "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const ProgramResult result = run_program({"bash", "--norc", "--noprofile", "-c", script});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST(BashCompletion, CompletesCommandsAndFlags) {
  EXPECT_EQ(offered("lockstep tr", {"lockstep", "tr"}), "train\n");
  EXPECT_EQ(offered("  lockstep  bench ", {"lockstep", "bench", ""}),
            "comm\nscaling\ncheckpoint\nkernels\n");
  EXPECT_EQ(offered("lockstep plan --sta", {"lockstep", "plan", "--sta"}), "--states-only\n");
}

TEST(BashCompletion, GivesBackOnlyWhatFollowsTheCutThatBashMade) {
  EXPECT_EQ(offered("lockstep plan --set opt", {"lockstep", "plan", "--set", "opt"}),
            "-o nospace\noptimizer.\n");
  EXPECT_EQ(offered("lockstep plan --set optimizer.name=",
                    {"lockstep", "plan", "--set", "optimizer.name", "="}),
            "sgd\nadamw\n");
  EXPECT_EQ(offered("lockstep plan --set optimizer.name=ad",
                    {"lockstep", "plan", "--set", "optimizer.name", "=", "ad"}),
            "adamw\n");
  EXPECT_EQ(offered("lockstep plan --set=batch.micro_batch=a",
                    {"lockstep", "plan", "--set", "=", "batch.micro_batch", "=", "a"}),
            "auto\n");
  EXPECT_EQ(offered("lockstep plan --set \"optimizer.name=ad",
                    {"lockstep", "plan", "--set", "\"optimizer.name=ad"}),
            "optimizer.name=adamw\n");
}

TEST(BashCompletion, CompletesFilesAlsoBehindAnEqualsSign) {
  EXPECT_EQ(offered("lockstep train examples/mlp/", {"lockstep", "train", "examples/mlp/"}),
            "-o filenames\nexamples/mlp/run.toml\n");
  EXPECT_EQ(
      offered("lockstep train --run-dir=examp", {"lockstep", "train", "--run-dir", "=", "examp"}),
      "-o filenames\nexamples\n");
}

TEST(Completion, OfAShellThatIsNotKnownNamesThoseThatAre) {
  const ProgramResult result = run_program({program("lockstep"), "completion", "bas"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "lockstep completion: error LS-1013: there is none for bas\n"
            "  fix: did you mean bash?\n");
}

}  // namespace
}  // namespace lockstep::test
