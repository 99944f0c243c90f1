#include "lockstep/data/formats/text.h"

#include <gtest/gtest.h>

#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/command_output.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;

std::string to_string(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

Problem problem_of_command(const std::vector<std::string>& argv, const CommandLimits& limits = {}) {
  return test::problem_of<EnvironmentFault>([&] { (void)command_output(argv, limits); });
}

TEST(Text, ReadsAFilePlainOrPacked) {
  const test::ScratchFolder scratch;
  const std::string_view text = "In the beginning\n";
  EXPECT_EQ(to_string(read_text(scratch.write("plain", text))), text);
  write_file(scratch.file("packed.gz"), std::as_bytes(std::span(text)));
  EXPECT_EQ(to_string(read_text(scratch.file("packed.gz"))), text);
}

TEST(Text, ReadsWhatAProgramPrintsWithoutAShell) {
  EXPECT_EQ(to_string(read_text("!echo two  words $HOME ; exit 1")), "two words $HOME ; exit 1\n");
}

TEST(Text, TheKingJamesTextIsWhole) {
  const std::string text = to_string(read_text("!bible -f gen1:1-rev22:21"));
  EXPECT_GT(text.size(), 4'300'000U);
  EXPECT_EQ(text.find("Ge1:1 In the beginning God created"), 0U);
  EXPECT_NE(text.find("\nRev22:21 The grace of our Lord"), std::string::npos);
}

TEST(Text, AnEmptyCommandIsAUsageError) { EXPECT_THROW((void)read_text("! "), UsageError); }

TEST(CommandOutput, AMissingProgramNamesItsDebianPackage) {
  const Problem unknown = problem_of_command({"lockstep-no-such-program"});
  EXPECT_EQ(unknown.code, "LS-2006");
  EXPECT_EQ(unknown.where, "!lockstep-no-such-program");
  const Problem known = problem_of_command({"/usr/bin/bible/no"});
  EXPECT_EQ(known.fix, "apt-get install bible-kjv");
}

TEST(CommandOutput, AFailureShowsStatusAndWhatTheProgramSaid) {
  const Problem problem = problem_of_command({"sh", "-c", "echo part; echo no disk >&2; exit 3"});
  EXPECT_NE(problem.what.find("ended with status 3; it printed: no disk"), std::string::npos)
      << problem.what;
  EXPECT_NE(problem_of_command({"sh", "-c", "kill -9 $$"}).what.find("signal 9"),
            std::string::npos);
}

TEST(CommandOutput, AProgramThatDoesNotEndIsKilledAtTheDeadline) {
  const CommandLimits short_time{.deadline = milliseconds(50)};
  EXPECT_NE(problem_of_command({"sleep", "100"}, short_time).what.find("did not end"),
            std::string::npos);
  EXPECT_NE(problem_of_command({"sh", "-c", "exec >&- 2>&-; sleep 1; sleep 1"}, short_time)
                .what.find("did not end"),
            std::string::npos);
}

TEST(CommandOutput, AProgramThatPrintsWithoutEndIsStoppedAtTheLimit) {
  const CommandLimits small{.output_bytes = 100'000};
  EXPECT_NE(problem_of_command({"yes"}, small).what.find("more than 100000 bytes"),
            std::string::npos);
}

TEST(CommandOutput, LongComplaintsDoNotBlockAndAreCut) {
  const Problem problem =
      problem_of_command({"sh", "-c", "yes complaint | head -c 300000 >&2; exit 1"});
  EXPECT_LT(problem.what.size(), 3000U);
}

}  // namespace
}  // namespace lockstep::data
