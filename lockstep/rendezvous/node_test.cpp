// Single rules of membership; simulator_test.cpp has all of them together against a bad network.
#include "lockstep/rendezvous/node.h"

#include <gtest/gtest.h>

#include "lockstep/rendezvous/node_cluster_testing.h"

namespace lockstep::rendezvous {
namespace {

using testing::Cluster;
using Kind = RoundEnd::Kind;

NodeSettings hosts(int least, int most, int restarts = 0) {
  NodeSettings settings;
  settings.min_nodes = least;
  settings.max_nodes = most;
  settings.max_restarts = restarts;
  settings.ours = true;
  return settings;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// As many agents as there are places, with their first round running.
void start(Cluster& cluster, int count) {
  for (int i = 0; i < count; ++i) cluster.add("h" + std::to_string(i));
  cluster.run_for(0.1);
  for (int i = 0; i < count; ++i) ASSERT_EQ(cluster.rounds(i), 1);
}

TEST(Gathering, StartsAtOnceWhenAllPlacesAreTaken) {
  Cluster cluster(hosts(1, 3));
  cluster.add("a");
  cluster.add("b");
  cluster.run_for(2);
  EXPECT_EQ(cluster.rounds(0), 0);
  cluster.add("c");
  cluster.run_for(0.05);
  ASSERT_EQ(cluster.rounds(2), 1);
  EXPECT_EQ(cluster.seen(2).rounds[0].seats.size(), 3U);
}

TEST(Gathering, WithEnoughHostsWaitsForTheLastCall) {
  Cluster cluster(hosts(2, 3));
  cluster.add("a");
  cluster.run_for(10);
  cluster.add("b");
  cluster.run_for(29.5);
  EXPECT_EQ(cluster.rounds(0), 0);
  cluster.run_for(1);
  EXPECT_EQ(cluster.rounds(0), 1);
  EXPECT_EQ(cluster.rounds(1), 1);
}

TEST(Gathering, MissingHostsAreListedEveryFiveSecondsAndInTheEnd) {
  NodeSettings settings = hosts(3, 3);
  settings.join_timeout_s = 60;
  Cluster cluster(settings);
  cluster.add("a", 0);
  cluster.add("b", 2);
  cluster.run_for(61);
  for (const int number : {0, 1}) {
    const auto& seen = cluster.seen(number);
    ASSERT_GE(seen.notes.size(), 11U);
    EXPECT_NEAR(seen.note_at_s[1] - seen.note_at_s[0], 5, 0.1);
    EXPECT_TRUE(has(seen.notes[0], "waiting for 5.0")) << seen.notes[0];
    EXPECT_TRUE(has(seen.notes[0],
                    "2 of 3 hosts are here: a (pid 100), b (pid 101); missing: "
                    "node rank 1"));
    ASSERT_TRUE(seen.finish);
    EXPECT_EQ(seen.finish->verdict.exit, Exit::environment);
    EXPECT_TRUE(has(seen.finish->verdict.because, "missing: node rank 1"));
  }
}

TEST(Gathering, HostsThatAreKnownByNameAreMissedByName) {
  NodeSettings settings = hosts(3, 3);
  settings.expected_hosts = {"a", "b", "10.0.0.2"};
  Cluster cluster(settings);
  cluster.add("a");
  cluster.run_for(6);
  EXPECT_TRUE(has(cluster.seen(0).notes.back(), "missing: b, 10.0.0.2"));
}

TEST(Gathering, ANodeRankIsThePlace) {
  Cluster cluster(hosts(4, 4));
  cluster.add("a", 3);
  cluster.add("b");
  cluster.add("c", 0);
  cluster.add("d", 1);
  cluster.run_for(0.1);
  ASSERT_EQ(cluster.rounds(0), 1);
  std::string order;
  for (const Seat& seat : cluster.seen(0).rounds[0].seats) order += seat.agent.host;
  EXPECT_EQ(order, "cdba");
}

TEST(Admission, ASecondLauncherOfANodeIsRefusedAtOnceAndBothAreNamed) {
  Cluster cluster(hosts(2, 2));
  cluster.add("a", 0, "m");
  cluster.add("a", 0, "m");
  cluster.run_for(0.7);
  ASSERT_TRUE(cluster.seen(1).finish);
  const auto& finish = *cluster.seen(1).finish;
  EXPECT_EQ(finish.verdict.exit, Exit::usage);
  ASSERT_TRUE(finish.refusal);
  EXPECT_EQ(finish.refusal->what,
            "node 0 already joined by pid 100 on a; refused: pid 101 on a; with Slurm use "
            "--ntasks-per-node=1");
  EXPECT_FALSE(cluster.seen(0).finish);
  EXPECT_TRUE(has(cluster.seen(0).notes.at(0), "refused a (pid 101)"));
}

TEST(Admission, UnderSlurmOneMachineHasOneAgentOtherwiseAsManyAsOneLikes) {
  NodeSettings settings = hosts(3, 3);
  Cluster many(settings);
  for (int i = 0; i < 3; ++i) many.add("a", -1, "m");
  many.run_for(0.1);
  EXPECT_EQ(many.rounds(2), 1);
  settings.one_agent_a_machine = true;
  Cluster one(settings);
  one.add("x");
  one.add("a", -1, "m");
  one.run_for(0.1);
  one.add("a", -1, "m");
  one.run_for(0.7);
  ASSERT_TRUE(one.seen(2).finish);
  EXPECT_TRUE(has(one.seen(2).finish->refusal->what, "--ntasks-per-node=1"));
  EXPECT_FALSE(one.seen(1).finish);
}

TEST(Admission, ALauncherThatWasStartedAnewTakesThePlaceOfItsDeadPredecessor) {
  Cluster cluster(hosts(3, 3));
  cluster.add("a", 0);
  const int dead = cluster.add("b", 1);
  cluster.run_for(1);
  cluster.kill(dead);
  cluster.run_for(0.3);
  const int successor = cluster.add("b", 1);
  cluster.run_for(5);
  EXPECT_FALSE(cluster.seen(successor).finish);
  cluster.add("c", 2);
  cluster.run_for(0.1);
  EXPECT_EQ(cluster.rounds(successor), 1);
}

TEST(Admission, ANodeRankBeyondTheLastIsRefused) {
  Cluster cluster(hosts(1, 2));
  cluster.add("a", 0);
  cluster.add("b", 2);
  cluster.run_for(0.1);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_TRUE(has(cluster.seen(1).finish->refusal->what, "asks for node rank 2 of 1:2 hosts"));
}

TEST(Admission, EveryFieldThatDiffersIsNamedUnlessItMay) {
  NodeSettings settings = hosts(2, 2);
  settings.may_differ = {"gpu"};
  Cluster cluster(settings);
  cluster.add("a", -1, "", {{"driver", "550.54"}, {"gpu", "A100"}, {"build", "1"}});
  cluster.add("b", -1, "", {{"driver", "550.90"}, {"gpu", "H100"}, {"extra", "x"}, {"build", "1"}});
  cluster.run_for(0.1);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_EQ(cluster.seen(1).finish->refusal->what,
            "hosts differ: driver is '550.90' on b (pid 101) and '550.54' on a (pid 100); extra is "
            "'x' on b (pid 101) and nothing on a (pid 100)");
  cluster.add("c", -1, "", {{"driver", "550.54"}, {"gpu", "H100"}, {"build", "1"}});
  cluster.run_for(0.1);
  EXPECT_EQ(cluster.rounds(2), 1);
}

TEST(Failures, TheFirstByTimeIsTheCauseAndAllRanksStartAgain) {
  Cluster cluster(hosts(3, 3, 1));
  start(cluster, 3);
  cluster.fail_ranks(2, 2.0);
  cluster.fail_ranks(1, 1.5);
  EXPECT_TRUE(cluster.seen(0).stop);
  EXPECT_FALSE(cluster.seen(0).stop->at_once);
  EXPECT_EQ(cluster.rounds(1), 1);  // until the last has stopped
  cluster.stop_all_told();
  EXPECT_EQ(cluster.rounds(0), 2);
  EXPECT_EQ(cluster.seen(0).rounds[1].restart_count, 1);
  EXPECT_EQ(cluster.seen(0).rounds[1].generation, 2);
  EXPECT_TRUE(has(cluster.state().last_end, "rank 0 on h1 ")) << cluster.state().last_end;
  EXPECT_TRUE(has(cluster.state().last_end, "restart 1 of 1"));
}

TEST(Failures, ARankThatLostAPeerIsNotTheCauseWhenAnotherShows) {
  Cluster cluster(hosts(3, 3));
  start(cluster, 3);
  cluster.fail_ranks(0, 1.0, true, -1, 5);
  cluster.run_for(0.3);
  EXPECT_FALSE(cluster.seen(2).stop);
  cluster.fail_ranks(1, 1.1, false, -1, 3);
  cluster.stop_all_told();
  cluster.run_for(1);
  for (const int number : {0, 1, 2}) {
    ASSERT_TRUE(cluster.seen(number).finish);
    const Verdict& verdict = cluster.seen(number).finish->verdict;
    EXPECT_EQ(verdict.first->host, "h1");
    EXPECT_EQ(verdict.exit, Exit::environment);  // the rank's own code
    ASSERT_EQ(verdict.consequences.size(), 1U);
    EXPECT_EQ(verdict.consequences[0].host, "h0");
  }
}

TEST(Failures, OnesThatAreOnlyConsequencesEndTheRoundSoonAfter) {
  Cluster cluster(hosts(2, 2));
  start(cluster, 2);
  cluster.fail_ranks(0, 1.0, true);
  cluster.run_for(0.7);
  EXPECT_TRUE(cluster.seen(1).stop);
}

TEST(Failures, ThreeRoundsThatEndAtTheSameStepStopTheJob) {
  Cluster cluster(hosts(2, 2, 100));
  start(cluster, 2);
  for (const std::int64_t step : {5, 17, 17, 16}) {
    EXPECT_FALSE(cluster.seen(0).finish);
    cluster.fail_ranks(0, 1, false, step);
    cluster.stop_all_told();
  }
  cluster.run_for(1);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_TRUE(has(cluster.seen(1).finish->verdict.because,
                  "3 rounds in a row failed without getting beyond step 17"));
  EXPECT_EQ(cluster.seen(1).finish->verdict.first->host, "h0");
}

TEST(Success, IsThatOfAllHostsAndOneThatHasSucceededMayGo) {
  Cluster cluster(hosts(3, 3));
  start(cluster, 3);
  cluster.end_ranks(1, Kind::succeeded);
  cluster.kill(1);
  cluster.tell_gone(1);
  cluster.run_for(6);
  EXPECT_FALSE(cluster.seen(0).stop);
  cluster.end_ranks(0, Kind::succeeded);
  cluster.end_ranks(2, Kind::succeeded);
  cluster.run_for(1);
  EXPECT_EQ(cluster.seen(0).finish->verdict.exit, Exit::ok);
  EXPECT_EQ(cluster.seen(2).finish->verdict.exit, Exit::ok);
}

TEST(Loss, OfASilentHostIsToldInThreeSecondsAndTheNextRoundWaitsForItsFence) {
  Cluster cluster(hosts(1, 2, 1));
  start(cluster, 2);
  const double lost_s = cluster.now_s();
  cluster.mute(1, true);
  cluster.run_for(5);
  EXPECT_LT(cluster.seen(0).stop_at_s - lost_s, 3);
  EXPECT_TRUE(has(cluster.seen(0).stop->because, "h1 (pid 101) has been silent for"));
  EXPECT_TRUE(cluster.seen(1).stop->at_once);
  EXPECT_LT(cluster.seen(1).stop_at_s - lost_s, 2.6);
  cluster.stop_all_told();
  cluster.run_for(0.1);
  ASSERT_EQ(cluster.rounds(0), 2);
  EXPECT_EQ(cluster.seen(0).rounds[1].seats.size(), 1U);
}

TEST(Loss, OfAConnectionIsToldAtOnceAndTheNextRoundComesAfterFourSeconds) {
  for (const bool is_proven : {false, true}) {
    Cluster cluster(hosts(1, 2, 1));
    start(cluster, 2);
    cluster.run_for(3);
    const double lost_s = cluster.now_s();
    cluster.kill(1);
    cluster.tell_gone(1, is_proven);
    EXPECT_TRUE(cluster.seen(0).stop);
    cluster.stop_all_told();
    cluster.run_for(5);
    ASSERT_EQ(cluster.rounds(0), 2);
    const double after_s = cluster.seen(0).round_at_s[1] - lost_s;
    EXPECT_TRUE(is_proven ? after_s < 0.1 : (after_s > 3.4 && after_s < 4.1)) << after_s;
  }
}

TEST(Loss, WithoutARestartLeftNamesTheHost) {
  Cluster cluster(hosts(1, 3, 0));
  start(cluster, 3);
  cluster.kill(2);
  cluster.tell_gone(2);
  cluster.stop_all_told();
  cluster.run_for(5);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_EQ(cluster.seen(1).finish->verdict.exit, Exit::failed);
  EXPECT_EQ(cluster.seen(1).finish->verdict.because,
            "h2 (pid 102) is gone: its connection ended; no restart is left (0 of 0 used)");
}

TEST(Loss, ALeaderThatWasStoppedItselfCallsNobodySilent) {
  Cluster cluster(hosts(2, 2, 0));
  start(cluster, 2);
  cluster.run_for(1);
  cluster.stop_process(0, true);
  cluster.run_for(20);
  cluster.stop_process(0, false);
  cluster.give(0, TimePassed{});
  EXPECT_FALSE(has(cluster.state().because, "silent")) << cluster.state().because;
}

TEST(Loss, WhereTheLeaderStoodStillItIsNotTheOthersWhoWereCutOff) {
  Cluster cluster(hosts(2, 2, 1));
  start(cluster, 2);
  cluster.run_for(1);
  cluster.stop_process(0, true);
  cluster.mute(1, true);
  cluster.run_for(6);
  ASSERT_TRUE(cluster.seen(1).stop && cluster.seen(1).stop->at_once);
  cluster.end_ranks(1, Kind::interrupted);
  cluster.stop_process(0, false);
  cluster.give(0, TimePassed{});
  cluster.mute(1, false);
  cluster.run_for(1);
  ASSERT_TRUE(cluster.seen(0).stop);
  EXPECT_TRUE(has(cluster.seen(0).stop->because, "this launcher stood still for 6."))
      << cluster.seen(0).stop->because;
  EXPECT_TRUE(has(cluster.state().because, "h0 (pid 100), which leads the job, stood still"))
      << cluster.state().because;
}

TEST(Loss, OfTheLeaderEndsTheJobOnTheOthersWithinFiveSecondsWhereItIsTheBoard) {
  NodeSettings settings = hosts(2, 2, 3);
  settings.ends_with_leader = true;
  Cluster cluster(settings);
  start(cluster, 2);
  const double lost_s = cluster.now_s();
  cluster.kill(0);
  cluster.run_for(3);
  EXPECT_TRUE(cluster.seen(1).stop->at_once);
  cluster.stop_all_told();
  cluster.run_for(2);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_LT(cluster.seen(1).finish_at_s - lost_s, 5);
  EXPECT_EQ(cluster.seen(1).finish->verdict.exit, Exit::environment);
  EXPECT_TRUE(has(cluster.seen(1).finish->verdict.because, "h0 (pid 100), the host that leads"));
  EXPECT_EQ(cluster.seen(1).finish->refusal.value_or(Problem{}).code, "LS-3064");
}

TEST(Leadership, AnotherAgentGoesOnFromTheLastState) {
  Cluster cluster(hosts(2, 3, 2));
  start(cluster, 3);
  cluster.fail_ranks(1, 1);
  cluster.stop_all_told();
  ASSERT_EQ(cluster.state().restart_count, 1);
  cluster.kill(0);
  cluster.lead(1, cluster.state_pointer());
  cluster.tell_gone(0, true);
  cluster.stop_all_told();
  cluster.run_for(0.1);
  ASSERT_EQ(cluster.rounds(2), 3);
  EXPECT_EQ(cluster.seen(2).rounds[2].restart_count, 2);
  EXPECT_EQ(cluster.seen(2).rounds[2].generation, 3);
  EXPECT_EQ(cluster.seen(2).rounds[2].seats.size(), 2U);
}

TEST(Leadership, WhatAJobLeftWhoseAgentsHaveAllGoneDoesNotCountForTheNext) {
  auto old = std::make_shared<JobState>();
  old->run_id = "job";
  old->version = 50;
  old->phase = JobState::Phase::running;
  old->generation = 7;
  old->restart_count = old->max_restarts = 3;
  Agent dead;
  dead.id = "dead";
  dead.host = "x";
  old->seats = {{dead, 0}};
  NodeSettings settings = hosts(1, 1, 3);
  settings.ends_with_leader = true;
  Cluster cluster(settings);
  cluster.wait_for_leader();
  const int agent = cluster.add("a");
  cluster.lead(agent, old);
  cluster.run_for(3);
  EXPECT_EQ(cluster.rounds(agent), 0);  // its ranks may live
  cluster.run_for(2);
  ASSERT_EQ(cluster.rounds(agent), 1);
  EXPECT_EQ(cluster.seen(agent).rounds[0].generation, 8);
  EXPECT_EQ(cluster.seen(agent).rounds[0].restart_count, 0);
}

TEST(Leadership, AfterAnotherThatWasKilledNoRoundStartsBeforeItsRanksHaveSurelyEnded) {
  Cluster cluster(hosts(2, 2));
  cluster.wait_for_leader();
  const int leader = cluster.add("a");
  cluster.lead(leader, nullptr, cluster.now_s() - 1);
  cluster.add("b");
  cluster.run_for(2.9);
  EXPECT_EQ(cluster.rounds(leader), 0);
  ASSERT_EQ(cluster.seen(leader).notes.size(), 1U);
  EXPECT_TRUE(has(cluster.seen(leader).notes[0], "another agent led this job here"));
  cluster.run_for(0.2);
  EXPECT_EQ(cluster.rounds(leader), 1);
}

TEST(Leadership, WhoLeadsAnewWaitsForRanksOfARoundThatItNeverHeardOf) {
  Cluster cluster(hosts(1, 1, 1));
  start(cluster, 1);
  cluster.forget();
  const int fresh = cluster.add("x");
  cluster.lead(fresh, nullptr);
  cluster.run_for(0.6);
  EXPECT_EQ(cluster.rounds(fresh), 0);
  ASSERT_TRUE(cluster.seen(0).stop);
  cluster.stop_all_told();
  cluster.run_for(3);
  EXPECT_EQ(cluster.rounds(fresh), 0) << "of others that it does not know either";
  cluster.run_for(1);
  ASSERT_EQ(cluster.rounds(fresh), 1);
  EXPECT_EQ(cluster.seen(fresh).rounds[0].generation, 2);
}

TEST(Leadership, AHostWithASeatThatIsNotListedIsKnownToBeGone) {
  Cluster cluster(hosts(2, 3, 1));
  start(cluster, 3);
  cluster.kill(0);
  cluster.lead(1, cluster.state_pointer());
  cluster.stop_all_told();
  cluster.run_for(0.1);
  ASSERT_EQ(cluster.rounds(2), 2);
  EXPECT_EQ(cluster.seen(2).rounds[1].seats.size(), 2U);
}

TEST(Leadership, APlaceWithoutAWordFromItsHolderIsGivenToOneOnly) {
  for (const bool comes_back : {true, false}) {
    Cluster cluster(hosts(2, 3, 1));
    cluster.add("a", 0);
    cluster.add("b", 1);
    cluster.add("c", 2);
    cluster.run_for(1);
    ASSERT_EQ(cluster.rounds(2), 1);
    cluster.kill(0);
    cluster.kill(1);  // as it looks to the next leader, who has never heard of it
    cluster.lead(2, cluster.state_pointer());
    const int second = cluster.add("b", 1);
    cluster.run_for(0.5);
    if (comes_back) cluster.revive(1);
    cluster.run_for(0.5);
    cluster.stop_all_told();
    cluster.run_for(10);
    EXPECT_EQ(cluster.seen(second).finish.has_value(), comes_back);
    EXPECT_EQ(cluster.rounds(second), comes_back ? 0 : 1);
    EXPECT_EQ(cluster.rounds(1), comes_back ? 2 : 1);
  }
}

TEST(Leadership, NobodyBeginsAnewAJobThatTheBoardHasForgotten) {
  Cluster cluster(hosts(1, 2, 1));
  start(cluster, 2);
  cluster.kill(0);
  cluster.lead(1, nullptr);
  ASSERT_TRUE(cluster.seen(1).stop);
  cluster.stop_all_told();
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_EQ(cluster.seen(1).finish->verdict.exit, Exit::environment);
  EXPECT_EQ(cluster.seen(1).finish->refusal.value_or(Problem{}).code, "LS-3069");
}

TEST(Leadership, AnAgentThatDiffersFromTheJobItCameToLeadRefusesItselfNotTheOthers) {
  for (const bool is_job_alive : {true, false}) {
    Cluster cluster(hosts(2, 3, 3));
    cluster.add("a", -1, "", {{"version", "1"}});
    cluster.add("b", -1, "", {{"version", "1"}});
    cluster.run_for(1);
    const auto last = cluster.state_pointer();
    cluster.kill(0);
    if (!is_job_alive) cluster.kill(1);
    cluster.wait_for_leader();
    const int other = cluster.add("c", -1, "", {{"version", "2"}});
    cluster.lead(other, last);
    cluster.run_for(6);
    EXPECT_FALSE(cluster.seen(1).finish);
    ASSERT_EQ(cluster.seen(other).finish.has_value(), is_job_alive);
    if (is_job_alive) {
      EXPECT_EQ(cluster.seen(other).finish->refusal->what,
                "hosts differ: version is '2' on c (pid 102) and '1' on a (pid 100)");
    }
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
