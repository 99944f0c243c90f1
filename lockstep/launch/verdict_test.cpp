#include "lockstep/launch/verdict.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::launch {
namespace {

RankEnd exited(int rank, int code) {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.exit_code = code;
  end.seconds = 3.2;
  return end;
}

RankEnd killed(int rank, int signal, bool by_us = false) {
  RankEnd end = exited(rank, 0);
  end.signal = signal;
  end.stopped_by_us = by_us;
  return end;
}

int first_rank(const LocalJobResult& result) {
  return result.first_failure.has_value() ? result.first_failure->rank : -1;
}

TEST(Verdict, AllWell) {
  const auto result = judge({exited(1, 0), exited(0, 0)}, false, true);
  EXPECT_EQ(result.exit, Exit::ok);
  EXPECT_EQ(first_rank(result), -1);
  EXPECT_FALSE(result.stopped_on_request);
}

TEST(Verdict, AWorkersOwnCodeIsPassedOn) {
  for (const int code : {2, 3, 4, 70}) {
    const auto result = judge({exited(1, code), killed(0, SIGTERM, true)}, false, true);
    EXPECT_EQ(static_cast<int>(result.exit), code);
    EXPECT_EQ(first_rank(result), 1);
  }
}

TEST(Verdict, AnyOtherCodeIsOne) {
  EXPECT_EQ(judge({exited(0, 42)}, false, true).exit, Exit::failed);
  EXPECT_EQ(judge({exited(0, 1)}, false, true).exit, Exit::failed);
  EXPECT_EQ(judge({killed(0, SIGSEGV)}, false, true).exit, Exit::failed);
  EXPECT_EQ(judge({exited(0, 2)}, false, false).exit, Exit::failed)
      << "a foreign program's 2 means nothing";
}

TEST(Verdict, ALostPeerIsNeverTheCauseOfAKilledRank) {
  const auto result = judge({exited(0, 5), exited(2, 5), killed(1, SIGKILL)}, false, true);
  EXPECT_EQ(first_rank(result), 1);
  EXPECT_EQ(result.exit, Exit::failed);
}

TEST(Verdict, LostPeersAloneEndAsFive) {
  const auto result = judge({exited(1, 5), killed(0, SIGTERM, true)}, false, true);
  EXPECT_EQ(first_rank(result), 1);
  EXPECT_EQ(result.exit, Exit::peer_lost);
}

TEST(Verdict, SavedAndStoppedIsSeventyFive) {
  for (const bool requested : {true, false}) {
    const auto result = judge({exited(0, 75), exited(1, 75)}, requested, true);
    EXPECT_EQ(result.exit, Exit::requeue);
    EXPECT_EQ(first_rank(result), -1);
    EXPECT_TRUE(result.stopped_on_request);
  }
  EXPECT_EQ(judge({exited(0, 75), exited(1, 5)}, true, true).exit, Exit::requeue)
      << "the rank that left was missed by the other; the save was agreed before";
}

TEST(Verdict, AFailureWhileSavingIsTheResult) {
  const auto result = judge({exited(1, 3), exited(0, 75)}, true, true);
  EXPECT_EQ(result.exit, Exit::environment);
  EXPECT_EQ(first_rank(result), 1);
}

TEST(Verdict, StoppedWithoutSavingIsOne) {
  const auto result = judge({killed(0, SIGTERM, true), killed(1, SIGKILL, true)}, true, true);
  EXPECT_EQ(result.exit, Exit::failed);
  EXPECT_EQ(first_rank(result), -1);
}

TEST(Verdict, ARankThatStoodStillIsTheCauseNotTheRankThatLostIt) {
  RankEnd frozen = killed(1, SIGKILL);
  frozen.frozen = true;
  const auto result = judge({exited(0, 5), frozen}, true, true);
  EXPECT_EQ(first_rank(result), 1);
  EXPECT_EQ(result.exit, Exit::failed);
  EXPECT_TRUE(describe(result).starts_with(
      "rank 1 was found stopped (state T, as SIGSTOP leaves it) and was killed after 3.20 s (pid "
      "101)"))
      << describe(result);
}

TEST(Verdict, APeerLostToTheRequestedStopIsNoFailure) {
  const auto result = judge({killed(1, SIGTERM, true), exited(0, 5)}, true, true);
  EXPECT_EQ(first_rank(result), -1);
  EXPECT_EQ(result.exit, Exit::failed);
  EXPECT_TRUE(result.stopped_on_request);
}

TEST(Verdict, OfEndsSeenTogetherTheDeathsBySignalComeFirst) {
  std::vector<RankEnd> ends{exited(0, 5), exited(1, 1), exited(2, 0), killed(3, SIGKILL)};
  sort_simultaneous(ends, true);
  std::vector<int> ranks;
  for (const auto& end : ends) ranks.push_back(end.rank);
  EXPECT_EQ(ranks, (std::vector<int>{3, 1, 0, 2}));
}

TEST(Describe, TheCauseComesFirstWithItsLastLines) {
  RankEnd first = killed(1, SIGKILL);
  first.hint = "somebody did it";
  first.last_stderr = "line one\nline two";
  const auto text = describe(judge({exited(0, 5), first, killed(2, SIGTERM, true)}, false, true));
  EXPECT_EQ(text,
            "rank 1 was killed by SIGKILL after 3.20 s (pid 101); that ended the job\n"
            "  somebody did it\n"
            "  its last lines:\n"
            "    | line one\n"
            "    | line two\n"
            "as a consequence:\n"
            "  rank 0 ended with exit code 5 (a peer was lost) after 3.20 s (pid 100)\n"
            "  rank 2 was stopped by SIGTERM after 3.20 s (pid 102)\n");
}

TEST(Describe, EveryKindOfEndHasItsSentence) {
  EXPECT_EQ(describe(judge({exited(0, 0)}, false, true)), "all ranks ended well\n");
  EXPECT_TRUE(describe(judge({exited(0, 75)}, true, true))
                  .starts_with("stopped on request with the state"));
  EXPECT_EQ(describe(judge({killed(0, SIGTERM, true)}, true, true)),
            "stopped on request\n  rank 0 was stopped by SIGTERM after 3.20 s (pid 100)\n");
  EXPECT_EQ(describe(judge({exited(0, 9)}, false, true)),
            "rank 0 ended with exit code 9 after 3.20 s (pid 100)\n"
            "  it printed nothing on standard error\n");
}

}  // namespace
}  // namespace lockstep::launch
