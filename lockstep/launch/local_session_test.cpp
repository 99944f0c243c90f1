#include "lockstep/launch/local_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "lockstep/base/fd.h"

namespace lockstep::launch {
namespace {

using rendezvous::Round;
using rendezvous::RoundEnd;
using rendezvous::Verdict;
using testing::HasSubstr;

LocalSession::Settings settings(int max_restarts) {
  LocalSession::Settings settings;
  settings.agent.ranks = 2;
  settings.run_id = "job";
  settings.max_restarts = max_restarts;
  return settings;
}

RoundEnd failed_with(int exit_code) {
  RoundEnd end;
  end.kind = RoundEnd::Kind::failed;
  end.failure.exit_code = exit_code;
  end.failure.text = "words " + std::to_string(exit_code);
  return end;
}

TEST(LocalSession, ASuccessEndsTheJob) {
  LocalSession session(settings(3));
  const auto round = std::get<Round>(session.next(-1));
  EXPECT_EQ(round.world_size(), 2);
  EXPECT_EQ(round.restart_count, 0);
  EXPECT_EQ(round.master_addr, "127.0.0.1");
  EXPECT_GT(round.master_port, 0);
  session.report({});
  EXPECT_EQ(std::get<Verdict>(session.next(-1)).exit, Exit::ok);
}

TEST(LocalSession, RestartsAreCountedAndTheLastFailureIsTheVerdict) {
  LocalSession session(settings(2));
  for (int restart = 0; restart <= 2; ++restart) {
    const auto round = std::get<Round>(session.next(-1));
    EXPECT_EQ(round.restart_count, restart);
    EXPECT_EQ(round.generation, restart);
    session.report(failed_with(restart + 1));
  }
  const auto verdict = std::get<Verdict>(session.next(-1));
  EXPECT_EQ(verdict.exit, Exit::failed);
  ASSERT_TRUE(verdict.first);
  EXPECT_EQ(verdict.first->exit_code, 3);
  EXPECT_EQ(verdict.because, "");
}

TEST(LocalSession, AMistakeOfTheCallerIsNotTriedAgain) {
  LocalSession::Settings ours = settings(5);
  ours.ours = true;
  LocalSession session(ours);
  ASSERT_TRUE(std::holds_alternative<Round>(session.next(-1)));
  session.report(failed_with(2));
  EXPECT_EQ(std::get<Verdict>(session.next(-1)).first->exit_code, 2);
}

TEST(LocalSession, ACrashLoopEndsBeforeItsRestartsAreUsedUp) {
  LocalSession session(settings(100));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(std::holds_alternative<Round>(session.next(-1)));
    session.report(failed_with(1));
  }
  EXPECT_THAT(std::get<Verdict>(session.next(-1)).because, HasSubstr("does not help"));
}

TEST(LocalSession, AStopWithASavedStateAsksToBeQueuedAgain) {
  LocalSession saved(settings(0));
  ASSERT_TRUE(std::holds_alternative<Round>(saved.next(-1)));
  RoundEnd end;
  end.kind = RoundEnd::Kind::stopped_on_request;
  end.saved = true;
  saved.report(end);
  EXPECT_EQ(std::get<Verdict>(saved.next(-1)).exit, Exit::requeue);

  LocalSession lost(settings(0));
  ASSERT_TRUE(std::holds_alternative<Round>(lost.next(-1)));
  end.saved = false;
  lost.report(end);
  EXPECT_EQ(std::get<Verdict>(lost.next(-1)).exit, Exit::failed);
}

TEST(LocalSession, NoRoundBeginsOnceSomebodyAskedToStop) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::pipe(fds.data()), 0);
  const Fd read_end(fds[0]);
  const Fd write_end(fds[1]);
  LocalSession session(settings(0));
  ASSERT_EQ(::write(write_end.get(), "x", 1), 1);
  EXPECT_THAT(std::get<Verdict>(session.next(read_end.get())).because, HasSubstr("on request"));
}

}  // namespace
}  // namespace lockstep::launch
