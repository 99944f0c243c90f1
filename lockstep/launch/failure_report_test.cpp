#include "lockstep/launch/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;

RankEnd end_of_rank(int exit_code, int signal) {
  RankEnd end;
  end.rank = 3;
  end.local_rank = 1;
  end.pid = 4711;
  end.exit_code = exit_code;
  end.signal = signal;
  end.seconds = 2;
  end.last_stderr = "the end";
  end.long_stderr = "Traceback (most recent call last):\n  File x\nKeyError: 'k'\nthe end";
  return end;
}

TEST(FailureReport, TellsAllThatIsKnownOfARank) {
  RankEnd end = end_of_rank(0, SIGKILL);
  end.hint = "something sent it kill -9";
  const auto failure = failure_of(end, "node-a", false);
  const std::string text = failure_text(failure, {1'700'000'000, "/logs/error.json"});
  for (const char* part : {"rank 3 was killed by SIGKILL: something sent it kill -9, after 2.00 s",
                           "node-a", "3 (local rank 1, pid 4711)", "/logs/error.json",
                           "time        2023-11-1", "  traceback\n", "    | KeyError: 'k'"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(FailureReport, AnErrorFileSpeaksBeforeTheLinesOfTheRank) {
  const test::ScratchFolder folder;
  RankEnd end = end_of_rank(1, 0);
  end.error_file = folder.write("error.json", R"({"message": "in its own words"})");
  EXPECT_EQ(failure_of(end, "a", false).text, "in its own words");
}

TEST(FailureReport, WithoutATracebackTheLastLinesAreShown) {
  RankEnd end = end_of_rank(1, 0);
  end.long_stderr = end.last_stderr;
  EXPECT_THAT(failure_text(failure_of(end, "a", false), {}),
              HasSubstr("its last lines\n    | the end"));
}

TEST(FailureReport, OnlyRanksOfOursSayByTheirCodeThatAPeerWasLost) {
  EXPECT_TRUE(failure_of(end_of_rank(5, 0), "a", true).consequence);
  EXPECT_FALSE(failure_of(end_of_rank(5, 0), "a", false).consequence);
  RankEnd stopped = end_of_rank(0, SIGTERM);
  stopped.stopped_by_us = true;
  const auto failure = failure_of(stopped, "b", false);
  EXPECT_TRUE(failure.consequence);
  EXPECT_EQ(consequence_text(failure), "rank 3 on b was stopped by SIGTERM (pid 4711)");
}

}  // namespace
}  // namespace lockstep::launch
