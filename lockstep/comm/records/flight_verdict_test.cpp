// Verdicts over records made by hand. All times are seconds of one clock; it is 100 s.
#include "lockstep/comm/records/flight_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNow = 100;

std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// The ranks of a job and what they recorded.
class Job {
 public:
  explicit Job(int ranks, const std::string& group = "dp") {
    for (int r = 0; r < ranks; ++r) {
      RankView view;
      view.flight.rank = r;
      view.flight.world_size = ranks;
      view.flight.process.pid = 4000 + r;
      view.flight.process.host = "node" + std::to_string(r);
      view.flight.groups = {{group, r, ranks, 0}};
      view.flight.phase = Phase::sync;
      view.flight.phase_since_ns = ns(kNow - 1);
      view.flight.heartbeat_ns = ns(kNow);
      view.process = {ProcessState::running, 'S'};
      view.now_ns = ns(kNow);
      views.push_back(view);
    }
  }

  CollectiveRecord& enter(int rank, double at, CollectiveState state = CollectiveState::started,
                          std::size_t group = 0) {
    RankFlight& flight = views[static_cast<std::size_t>(rank)].flight;
    CollectiveRecord record;
    record.index = static_cast<std::int64_t>(flight.records.size()) + 1;
    record.group = group;
    record.sequence = ++flight.groups[group].entered;
    record.op = "all_reduce";
    record.dtype = "float32";
    record.site = "bucket 4: layer3.0.conv1.weight ..";
    record.count = 1024;
    record.bytes = 4096;
    record.state = state;
    record.entered_ns = ns(at);
    if (!record.in_flight()) record.finished_ns = ns(at + 0.001);
    flight.records.push_back(record);
    return flight.records.back();
  }
  CollectiveRecord& message(int rank, double at, const MessageEnd& end,
                            CollectiveState state = CollectiveState::started) {
    CollectiveRecord& record = enter(rank, at, state);
    --views[static_cast<std::size_t>(rank)].flight.groups[0].entered;
    record.sequence = 0;
    record.op = end.sends ? "send" : "recv";
    record.site = "";
    record.message = end;
    return record;
  }
  /// All of them, up to `sequence`.
  void complete_until(std::int64_t sequence) {
    for (std::size_t r = 0; r < views.size(); ++r) {
      views[r].flight.groups[0].entered = sequence - 1;
      enter(static_cast<int>(r), 80, CollectiveState::completed);
    }
  }
  void set_phase(int rank, Phase phase, double since) {
    views[static_cast<std::size_t>(rank)].flight.phase = phase;
    views[static_cast<std::size_t>(rank)].flight.phase_since_ns = ns(since);
  }
  RankView& operator[](int rank) { return views[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Verdict judge() const { return comm::judge(views); }

  std::vector<RankView> views;
};

/// Ranks 0, 2 and 3 of 4 wait in #812 since 14.6 s; rank 1 reads data.
Job waiting_for_rank_one() {
  Job job(4);
  job.complete_until(811);
  for (const int r : {0, 2, 3}) job.enter(r, kNow - 14.6);
  job.set_phase(1, Phase::data, kNow - 14.8);
  return job;
}

TEST(Verdict, NamesTheRankThatHasNotEnteredWhatItDoesAndWhoWaits) {
  const Verdict verdict = waiting_for_rank_one().judge();
  EXPECT_EQ(verdict.kind, VerdictKind::missing);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_EQ(verdict.group, "dp");
  EXPECT_EQ(verdict.sequence, 812);
  EXPECT_EQ(verdict.text,
            "rank 1 has not entered all_reduce #812 of group dp (bucket 4: layer3.0.conv1.weight "
            "..); it has been in data wait for 14.8 s; ranks 0, 2, 3 have waited for 14.6 s");
}

TEST(Verdict, NamesSeveralMissingRanksEachWithItsPhase) {
  Job job = waiting_for_rank_one();
  job[3].flight.records.pop_back();
  --job[3].flight.groups[0].entered;
  job.set_phase(3, Phase::optimizer, kNow - 20);
  const Verdict verdict = job.judge();
  EXPECT_THAT(verdict.ranks, ElementsAre(1, 3));
  EXPECT_THAT(verdict.text, HasSubstr("ranks 1, 3 have not entered all_reduce #812"));
  EXPECT_THAT(verdict.text, HasSubstr("; rank 1 has been in data wait for 14.8 s; rank 3 has been "
                                      "in the optimizer for 20.0 s; ranks 0, 2 have waited"));
}

TEST(Verdict, AShortWaitIsTheOrdinaryCourseOfThings) {
  Job job(2);
  job.complete_until(7);
  job.enter(0, kNow - 0.3);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::healthy);
  EXPECT_FALSE(verdict.is_wrong());
  EXPECT_THAT(verdict.text, HasSubstr("all 2 ranks move; the last collective is all_reduce #8 of"));
  EXPECT_EQ(judge(job.views, {.patience_s = 0.1}).kind, VerdictKind::missing);
}

TEST(Verdict, AStoppedProcessIsWrongAtOnce) {
  Job job(2);
  job.complete_until(7);
  job.enter(0, kNow - 0.3);
  job[1].process = {ProcessState::stopped, 'T'};
  job.set_phase(1, Phase::forward, kNow - 0.4);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::stopped);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 has not entered all_reduce #8 of group dp"));
  EXPECT_THAT(
      verdict.text,
      HasSubstr("it is stopped (process 4001, state T), in forward for 400 ms; rank 0 has"));
}

TEST(Verdict, AStoppedProcessIsNamedAlsoWhenNobodyWaitsYet) {
  Job job(2);
  job.complete_until(7);
  job[0].process = {ProcessState::stopped, 'T'};
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::stopped);
  EXPECT_EQ(verdict.text, "rank 0 is stopped (process 4000, state T), in sync for 1.00 s");
}

TEST(Verdict, AProcessThatIsGoneIsNamedWithItsLastPhase) {
  Job job = waiting_for_rank_one();
  job[1].process = {ProcessState::gone, '-'};
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::ended);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text,
              HasSubstr("; it has ended (process 4001 is gone), last in data wait; "));
}

TEST(Verdict, AfterTheJobTheOneThatDidNotComeIsStillNamed) {
  Job job = waiting_for_rank_one();
  for (RankView& view : job.views) {
    view.process = {ProcessState::gone, '-'};
    view.now_ns = ns(5000);
    if (view.flight.rank == 1) continue;
    view.flight.records.back().state = CollectiveState::failed;
    view.flight.records.back().finished_ns = ns(kNow);
  }
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::ended);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("ranks 0, 2, 3 gave up after 14.6 s"));
}

TEST(Verdict, DifferentCollectivesAtTheSamePlaceAreNamedWithTheirSites) {
  Job job(3);
  job.complete_until(3);
  job.enter(0, kNow - 0.2);
  job.enter(1, kNow - 0.2).count = 512;
  CollectiveRecord& other = job.enter(2, kNow - 0.1);
  other.op = "broadcast";
  other.site = "the order of the gradients";
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::mismatch);
  EXPECT_THAT(verdict.ranks, ElementsAre(0, 1, 2));
  EXPECT_EQ(
      verdict.text,
      "ranks entered different collectives as #4 of group dp: rank 0 all_reduce of 1024 "
      "float32 (bucket 4: layer3.0.conv1.weight ..); rank 1 all_reduce of 512 float32 (bucket "
      "4: layer3.0.conv1.weight ..); rank 2 broadcast of 1024 float32 (the order of the "
      "gradients)");
}

TEST(Verdict, UnevenPartsOfAnAllToAllAreNoMismatch) {
  Job job(2);
  for (const int r : {0, 1}) {
    CollectiveRecord& record = job.enter(r, kNow - 0.2);
    record.op = "all_to_all";
    record.count = 10 + r;
  }
  EXPECT_EQ(job.judge().kind, VerdictKind::healthy);
}

TEST(Verdict, AllInsideOneCollectivePointsAtTheNetwork) {
  Job job(2);
  job.complete_until(3);
  job.enter(0, kNow - 30);
  job.enter(1, kNow - 29);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::inside);
  EXPECT_THAT(verdict.ranks, ElementsAre(0, 1));
  EXPECT_THAT(verdict.text, HasSubstr("all 2 ranks are inside all_reduce #4 of group dp"));
  EXPECT_THAT(verdict.text, HasSubstr("have waited for 30.0 s; look at the network"));
  job[0].flight.records.back().entered_ns = ns(kNow - 1);
  EXPECT_EQ(job.judge().kind, VerdictKind::healthy) << "the last one came a second ago";
}

TEST(Verdict, AProcessStoppedInsideACollectiveThatAllEnteredIsTheCause) {
  Job job(2);
  job.enter(0, kNow - 1);
  job.enter(1, kNow - 1);
  job[1].process = {ProcessState::stopped, 'T'};
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::stopped);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 is stopped (process 4001, state T) while the group "
                                      "is inside all_reduce #1 of group dp"));
}

TEST(Verdict, AsynchronousCollectivesThatCompletedOutOfOrderDoNotHideTheStuckOne) {
  Job job(2);
  job.complete_until(3);
  job.enter(0, kNow - 30, CollectiveState::completed);  // #4
  job.enter(1, kNow - 30, CollectiveState::completed);
  job.enter(0, kNow - 20);  // #5
  job.enter(0, kNow - 20);  // #6
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.sequence, 5);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
}

TEST(Verdict, ARankThatGaveUpAndEndedIsNotTheCause) {
  Job job(2);
  job.enter(0, kNow - 3);
  job.enter(1, kNow - 3, CollectiveState::failed);
  for (RankView& view : job.views) view.process = {ProcessState::gone, '-'};
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::ended);
  EXPECT_EQ(verdict.text,
            "rank 0 has ended (process 4000 is gone) while the group is inside all_reduce #1 of "
            "group dp (bucket 4: layer3.0.conv1.weight ..); rank 1 gave up after 1.00 ms");
}

TEST(Verdict, WhatARankDoesNotWaitForYetIsNotTakenForStuck) {
  Job job(2);
  job.complete_until(3);
  job.enter(0, kNow - 30,
            CollectiveState::completed);  // #4: rank 1 has not looked whether it ended
  job.enter(1, kNow - 30);
  job.enter(0, kNow - 20);  // #5
  job.set_phase(1, Phase::backward, kNow - 31);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::missing);
  EXPECT_EQ(verdict.sequence, 5);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
}

TEST(Verdict, CollectivesInFlightWhileRanksComputeAreGivenMoreTime) {
  Job job(2);
  job.complete_until(3);
  for (const int r : {0, 1}) {
    job.enter(r, kNow - 20);
    job.set_phase(r, Phase::backward, kNow - 21);
  }
  EXPECT_EQ(job.judge().kind, VerdictKind::healthy);
  job.set_phase(0, Phase::sync, kNow - 1);
  EXPECT_EQ(job.judge().kind, VerdictKind::inside);
}

TEST(Verdict, ARecordThatLeftTheRingCountsAsEntered) {
  Job job(2);
  job.complete_until(3);
  job.enter(0, kNow - 20);
  job[1].flight.groups[0].entered = 9000;
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::inside);
  EXPECT_THAT(verdict.ranks, ElementsAre(0));
}

TEST(Verdict, ARankWithoutARecordIsAbsent) {
  Job job = waiting_for_rank_one();
  job.views.erase(job.views.begin() + 1);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::absent);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("; rank 1 has no flight record; ranks 0, 2, 3 have waited"));
}

TEST(Verdict, OfTwoGroupsTheOneWhoseRankDoesNotWaitItselfIsTheCause) {
  // Rank 0 waits in dp for rank 1, which waits in tp for rank 3, which reads data.
  Job job(4);
  const std::vector<std::pair<int, std::string>> second{
      {0, "tp0"}, {1, "tp1"}, {2, "tp0"}, {3, "tp1"}};
  for (const auto& [r, group] : second) job[r].flight.groups.push_back({group, r / 2, 2, 0});
  job.complete_until(3);
  job.enter(0, kNow - 30);
  job.enter(2, kNow - 30);
  job.enter(3, kNow - 30);
  job.enter(1, kNow - 20, CollectiveState::started, 1);
  job.set_phase(3, Phase::data, kNow - 21);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.group, "tp1");
  EXPECT_THAT(verdict.ranks, ElementsAre(3));
  EXPECT_THAT(verdict.text, HasSubstr("rank 3 has not entered all_reduce #1 of group tp1"));
}

TEST(Verdict, GroupsThatWaitForEachOtherAreBothNamed) {
  Job job(2, "first");
  for (const int r : {0, 1}) job[r].flight.groups.push_back({"second", r, 2, 0});
  job.enter(0, kNow - 20);
  job.enter(1, kNow - 19, CollectiveState::started, 1);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::missing);
  EXPECT_THAT(verdict.text, HasSubstr("of group first"));
  EXPECT_THAT(verdict.text, HasSubstr("of group second"));
}

TEST(Verdict, OnAnotherHostASilentRankIsToldAsSuch) {
  Job job = waiting_for_rank_one();
  job[1].process = {};
  job[1].flight.heartbeat_ns = ns(kNow - 13);
  EXPECT_THAT(job.judge().text, HasSubstr("it has been in data wait for 14.8 s, without a sign of "
                                          "life from node1 for 13.0 s"));
  job[1].flight.heartbeat_ns = ns(kNow);
  EXPECT_EQ(job.judge().kind, VerdictKind::missing);
}

TEST(Verdict, WhenAllRanksFinishedTheJobHasEnded) {
  Job job(2);
  job.complete_until(3);
  for (RankView& view : job.views) {
    view.flight.finished = true;
    view.process = {ProcessState::gone, '-'};
  }
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::finished);
  EXPECT_EQ(verdict.text, "the job has ended: all 2 ranks finished");
  EXPECT_FALSE(verdict.is_wrong());
}

TEST(Verdict, ALongPhaseWithoutAnybodyWaitingIsToldButNotWrong) {
  Job job(1);
  job.set_phase(0, Phase::data, kNow - 60);
  const Verdict verdict = job.judge();
  EXPECT_FALSE(verdict.is_wrong());
  EXPECT_THAT(verdict.text, HasSubstr("rank 0 has been in data wait for 1 min 00 s"));
}

TEST(Verdict, ManyRanksAreNotListedOneByOne) {
  Job job(64);
  job.complete_until(3);
  for (int r = 1; r < 64; ++r) job.enter(r, kNow - 20);
  EXPECT_THAT(job.judge().text, HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more have waited"));
}

TEST(Verdict, AReceiveThatHangsNamesWhoWaitsForWhomAndWhatThatRankDoes) {
  Job job(2);
  job.complete_until(3);
  job.message(1, kNow - 12, {.sends = false, .peer = 0, .tag = 7});
  job.set_phase(0, Phase::data, kNow - 12.5);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::missing);
  EXPECT_THAT(verdict.ranks, ElementsAre(0));
  EXPECT_EQ(verdict.op, "recv");
  EXPECT_EQ(verdict.text,
            "rank 1 has waited for 12.0 s in recv from rank 0 (tag 7) of group dp; rank 0 has been "
            "in data wait for 12.5 s");
  job[0].process = {ProcessState::gone, '-'};
  EXPECT_EQ(job.judge().kind, VerdictKind::ended);
  EXPECT_THAT(job.judge().text, HasSubstr("; rank 0 has ended (process 4000 is gone), last in"));
}

TEST(Verdict, AShortWaitForAMessageIsTheOrdinaryCourseOfThings) {
  Job job(2);
  job.message(1, kNow - 1, {.sends = true, .peer = 0, .tag = 7});
  EXPECT_EQ(job.judge().kind, VerdictKind::healthy);
  EXPECT_THAT(judge(job.views, {.patience_s = 0}).text, HasSubstr("in send to rank 0 (tag 7)"));
}

TEST(Verdict, AChainOfMessagesLeadsToTheRankThatWaitsForNobody) {
  Job job(4);
  for (const int r : {1, 2, 3}) {
    job.message(r, kNow - 20 + r, {.sends = false, .peer = r - 1, .tag = 0});
  }
  job.set_phase(0, Phase::checkpoint, kNow - 30);
  const Verdict verdict = job.judge();
  EXPECT_THAT(verdict.ranks, ElementsAre(0));
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 has waited for 19.0 s in recv from rank 0"));
}

TEST(Verdict, ARankThatIsMissingBecauseItWaitsForAMessageIsNotTheCause) {
  Job job(3);
  job.complete_until(3);
  job.enter(0, kNow - 10);
  job.enter(1, kNow - 10);
  job.message(2, kNow - 12, {.sends = false, .peer = 1, .tag = 5});
  const Verdict verdict = job.judge();
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("rank 2 has waited for 12.0 s in recv from rank 1 (tag 5)"));
  EXPECT_THAT(verdict.text, HasSubstr("with all_reduce #4 of group dp"));
}

TEST(Verdict, RanksThatReceiveFromEachOtherAreBothNamed) {
  Job job(2);
  job.message(0, kNow - 11, {.sends = false, .peer = 1, .tag = 1});
  job.message(1, kNow - 12, {.sends = false, .peer = 0, .tag = 2});
  const std::string text = job.judge().text;
  EXPECT_THAT(text, HasSubstr("rank 0 has waited for 11.0 s in recv from rank 1 (tag 1)"));
  EXPECT_THAT(text, HasSubstr("with recv from rank 0 (tag 2) of group dp open for 12.0 s"));
}

TEST(Verdict, AMessageThatBothRanksAreInPointsAtBoth) {
  Job job(2);
  job.message(0, kNow - 11, {.sends = true, .peer = 1, .tag = 1});
  job.message(1, kNow - 12, {.sends = false, .peer = -1, .tag = 1});
  job[1].flight.records.back().message->peer = 0;
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::inside);
  EXPECT_THAT(verdict.ranks, ElementsAre(0, 1));
  EXPECT_THAT(verdict.text, HasSubstr("; rank 0 has been in its send for 11.0 s, and they do not"));
}

TEST(Verdict, InASmallerGroupTheEndsOfAMessageAreRanksOfTheJob) {
  Job job(4);
  for (const int r : {1, 3}) job[r].flight.groups.push_back({"odd", r / 2, 2, 0});
  job.message(3, kNow - 12, {.sends = false, .peer = 0, .tag = 7}).group = 1;
  EXPECT_THAT(job.judge().text, HasSubstr("rank 3 has waited for 12.0 s in recv from rank 1 (tag "
                                          "7) of group odd; rank 1 has been in sync"));
  job[1].flight.groups.pop_back();
  EXPECT_EQ(job.judge().kind, VerdictKind::absent);
}

TEST(Verdict, AMessageThatNoRankSentBlamesNobody) {
  Job job(2);
  job.message(0, kNow - 12, {.sends = false, .peer = -1, .tag = 7});
  EXPECT_EQ(job.judge().text,
            "rank 0 has waited for 12.0 s in recv from any rank (tag 7) of group dp, which no rank "
            "has sent");
  EXPECT_TRUE(job.judge().ranks.empty());
}

TEST(Verdict, AMessageGivenUpLongAgoIsHistory) {
  Job job(2);
  job.message(0, kNow - 50, {.sends = true, .peer = 1, .tag = 7}, CollectiveState::failed);
  EXPECT_THAT(job.judge().text,
              HasSubstr("rank 0 gave up after 1.00 ms in send to rank 1 (tag 7)"));
  job.complete_until(3);
  EXPECT_FALSE(job.judge().is_wrong());
}

TEST(Verdict, OverNobodyIsHealthy) { EXPECT_FALSE(judge({}).is_wrong()); }

}  // namespace
}  // namespace lockstep::comm
