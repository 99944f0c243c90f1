#include "lockstep/launch/crash_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

using rendezvous::RoundEnd;
using testing::HasSubstr;

RoundEnd failed_at(std::int64_t step, const std::string& text = "ValueError: x",
                   double seconds = 1) {
  RoundEnd end;
  end.kind = RoundEnd::Kind::failed;
  end.step = step;
  end.failure.exit_code = 1;
  end.failure.text = text;
  end.failure.seconds = seconds;
  return end;
}

TEST(CrashLoop, ThreeFailuresBehindTheSameStepAreEnough) {
  CrashLoop loop(10);
  EXPECT_EQ(loop.add(failed_at(7)), "");
  EXPECT_EQ(loop.add(failed_at(7, "another text", 90)), "");
  EXPECT_THAT(loop.add(failed_at(7)), HasSubstr("step 7"));
}

TEST(CrashLoop, ProgressStartsTheCountAgain) {
  CrashLoop loop(10);
  for (int step = 0; step < 9; ++step) EXPECT_EQ(loop.add(failed_at(step)), "") << step;
  EXPECT_EQ(loop.add(failed_at(8)), "");
  EXPECT_NE(loop.add(failed_at(8)), "");
}

TEST(CrashLoop, ProgramsThatReportNoStepsAreJudgedByTheirLastWords) {
  CrashLoop loop(10);
  EXPECT_EQ(loop.add(failed_at(-1, "pid 1\nKeyError: 'a'")), "");
  EXPECT_EQ(loop.add(failed_at(-1, "pid 2\nKeyError: 'a'")), "");
  EXPECT_THAT(loop.add(failed_at(-1, "pid 3\nKeyError: 'a'")), HasSubstr("same words"));
}

TEST(CrashLoop, OtherWordsOrALongRunAreNoLoop) {
  CrashLoop loop(10);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(loop.add(failed_at(-1, std::to_string(i))), "");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(loop.add(failed_at(-1, "same", 3600)), "");
}

TEST(CrashLoop, AFewRestartsAreTriedWithoutAsking) {
  CrashLoop loop(3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(loop.add(failed_at(7)), "");
}

TEST(CrashLoop, ARoundThatDidNotFailIsNoneOfThem) {
  CrashLoop loop(10);
  EXPECT_EQ(loop.add(failed_at(7)), "");
  EXPECT_EQ(loop.add(failed_at(7)), "");
  RoundEnd interrupted;
  interrupted.kind = RoundEnd::Kind::interrupted;
  EXPECT_EQ(loop.add(interrupted), "");
  EXPECT_EQ(loop.add(failed_at(7)), "");
}

}  // namespace
}  // namespace lockstep::launch
