// Hosts that come, go, come back, or are asked to stop.
#include <gtest/gtest.h>

#include "lockstep/rendezvous/holds.h"
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
  settings.last_call_s = 0;
  return settings;
}

void start(Cluster& cluster, int count) {
  for (int i = 0; i < count; ++i) cluster.add("h" + std::to_string(i));
  for (int i = 0; i < 20; ++i) {  // an elastic job begins with the first
    cluster.run_for(0.1);
    cluster.stop_all_told();
  }
  for (int i = 0; i < count; ++i) ASSERT_GE(cluster.rounds(i), 1);
}

TEST(Missed, WhoHearsLateOfARoundDoesNotStartItsRanksThen) {
  NodeSettings settings = hosts(2, 3, 1);
  settings.last_call_s = 1;
  Cluster cluster(settings);
  cluster.add("a");
  cluster.add("b");
  cluster.run_for(0.95);
  cluster.stop_process(1, true);
  cluster.run_for(0.2);
  ASSERT_EQ(cluster.rounds(0), 1);
  const auto running = cluster.state_pointer();
  cluster.run_for(2.8);  // the others may count it as gone, and go on without asking it
  cluster.stop_process(1, false);
  cluster.give(1, StateCame{running});
  cluster.run_for(0.1);
  EXPECT_EQ(cluster.rounds(1), 0);
  cluster.stop_all_told();
  cluster.run_for(3);
  EXPECT_EQ(cluster.rounds(0), 2);
  EXPECT_EQ(cluster.rounds(1), 1) << "the next round is its own again";
}

TEST(Joining, AHostThatThereIsRoomForBringsANewRoundThatDoesNotCount) {
  Cluster cluster(hosts(1, 2));
  cluster.add("a");
  cluster.run_for(5);
  ASSERT_EQ(cluster.rounds(0), 1);
  cluster.add("b");
  cluster.run_for(1.2);
  ASSERT_TRUE(cluster.seen(0).stop);
  EXPECT_EQ(cluster.seen(0).stop->because, "b (pid 101) joins");
  cluster.stop_all_told();
  cluster.run_for(0.1);
  ASSERT_EQ(cluster.rounds(1), 1);
  EXPECT_EQ(cluster.seen(1).rounds[0].restart_count, 0);
  EXPECT_EQ(cluster.seen(1).rounds[0].seats.front().agent.host, "a");
}

TEST(Joining, AHostWithoutRoomWaitsAndTakesThePlaceOfOneThatIsLost) {
  Cluster cluster(hosts(2, 2, 1));
  start(cluster, 2);
  const int spare = cluster.add("spare");
  cluster.run_for(20);
  EXPECT_FALSE(cluster.seen(0).stop);
  ASSERT_EQ(cluster.seen(spare).notes.size(), 1U);
  EXPECT_NE(cluster.seen(spare).notes[0].find("a place: all 2 are taken"), std::string::npos);
  cluster.kill(1);
  cluster.tell_gone(1, true);
  cluster.stop_all_told();
  cluster.run_for(0.1);
  EXPECT_EQ(cluster.rounds(spare), 1);
}

TEST(Joining, NobodyIsInterruptedForAHostThatComesWhenRanksHaveSucceeded) {
  Cluster cluster(hosts(2, 3));
  start(cluster, 2);
  cluster.end_ranks(0, Kind::succeeded);
  const int late = cluster.add("late");
  cluster.run_for(5);
  EXPECT_FALSE(cluster.seen(1).stop);
  cluster.end_ranks(1, Kind::succeeded);
  cluster.run_for(1);
  ASSERT_TRUE(cluster.seen(late).finish);
  EXPECT_EQ(cluster.seen(late).finish->verdict.exit, Exit::ok);
}

TEST(Flapping, AHostThatComesAndGoesIsHeldOffLongerEachTime) {
  Cluster cluster(hosts(1, 2, 100));
  start(cluster, 1);
  double gone_s = cluster.now_s();
  for (const double hold_s : {0.0, 10.0, 20.0, 40.0, 80.0, 100.0, 100.0}) {
    const int flapping = cluster.add("flapping");
    while (cluster.rounds(flapping) == 0 && cluster.now_s() < gone_s + 200) {
      cluster.run_for(0.1);
      cluster.stop_all_told();
    }
    ASSERT_EQ(cluster.rounds(flapping), 1);
    if (hold_s > 0) {
      EXPECT_NEAR(cluster.seen(flapping).round_at_s[0] - gone_s, hold_s, 1.5);
    }
    cluster.run_for(1);
    cluster.kill(flapping);
    cluster.tell_gone(flapping, true);
    cluster.stop_all_told();
    gone_s = cluster.now_s();
  }
}

TEST(Flapping, LeavingAndComingBackDoesNotGoRoundTheBudget) {
  Cluster cluster(hosts(1, 2, 2));
  start(cluster, 1);
  for (int turn = 0; turn < 10 && !cluster.seen(0).finish; ++turn) {
    const int flapping = cluster.add("flapping");
    for (int i = 0; i < 1200 && cluster.rounds(flapping) == 0; ++i) {
      cluster.run_for(0.1);
      cluster.stop_all_told();
    }
    cluster.give(flapping, StopAsked{});
    cluster.end_ranks(flapping, Kind::stopped_on_request);
    cluster.stop_all_told();
    cluster.run_for(1);
  }
  ASSERT_TRUE(cluster.seen(0).finish);
  EXPECT_EQ(cluster.seen(0).finish->verdict.exit, Exit::failed);
  EXPECT_NE(cluster.seen(0).finish->verdict.because.find("no restart is left (2 of 2 used)"),
            std::string::npos);
}

TEST(Flapping, AHostThatTheJobCannotDoWithoutIsNotHeldTheFirstTime) {
  Cluster cluster(hosts(2, 2, 5));
  start(cluster, 2);
  cluster.kill(1);
  cluster.tell_gone(1, true);
  cluster.stop_all_told();
  cluster.run_for(1);
  const int back = cluster.add("h1");
  cluster.run_for(1.2);
  EXPECT_EQ(cluster.rounds(back), 1);
}

TEST(Flapping, IsForgivenAfterAWhile) {
  const NodeTimes times;
  Holds holds(times);
  Agent agent;
  agent.host = "a";
  holds.host_has_gone(agent, 1000);
  holds.host_has_gone(agent, 1005);
  EXPECT_EQ(holds.held_until_s(agent), 1025);
  Holds other(times);
  other.continue_from(holds.to_strikes(1010), 5);
  EXPECT_EQ(other.held_until_s(agent), 20);
  EXPECT_EQ(other.times_gone(agent), 2);
  holds.host_has_gone(agent, 2000);
  EXPECT_EQ(holds.held_until_s(agent), 2010);
}

TEST(Stopping, OneHostStopsTheJobOnAllWithTheStateSaved) {
  for (const bool is_saved : {true, false}) {
    Cluster cluster(hosts(3, 3, 5));
    start(cluster, 3);
    cluster.give(1, StopAsked{});
    ASSERT_TRUE(cluster.seen(0).stop);
    EXPECT_EQ(cluster.seen(0).stop->because, "h1 (pid 101) was asked to stop");
    EXPECT_FALSE(cluster.seen(0).stop->at_once);
    cluster.end_ranks(1, Kind::stopped_on_request, 7, true);
    cluster.end_ranks(0, Kind::interrupted, 7, true);
    cluster.end_ranks(2, Kind::interrupted, 7, is_saved);
    cluster.run_for(1);
    for (const int number : {0, 1, 2}) {
      ASSERT_TRUE(cluster.seen(number).finish);
      EXPECT_EQ(cluster.seen(number).finish->verdict.exit, is_saved ? Exit::requeue : Exit::failed);
      EXPECT_EQ(cluster.seen(number).finish->verdict.because, "h1 (pid 101) was asked to stop");
    }
  }
}

TEST(Stopping, RanksThatSaveAndLeaveByThemselvesEndTheJob) {
  Cluster cluster(hosts(2, 2, 5));
  start(cluster, 2);
  cluster.end_ranks(0, Kind::stopped_on_request, 7, true);
  cluster.end_ranks(1, Kind::stopped_on_request, 7, true);
  cluster.run_for(1.5);
  EXPECT_EQ(cluster.seen(0).finish->verdict.exit, Exit::requeue);
  EXPECT_EQ(cluster.seen(1).finish->verdict.exit, Exit::requeue);
}

TEST(Stopping, AnElasticJobGoesOnWithoutTheHostThatWasAsked) {
  Cluster cluster(hosts(1, 3, 1));
  start(cluster, 3);
  cluster.give(2, StopAsked{});
  cluster.end_ranks(2, Kind::stopped_on_request, 7, true);
  cluster.stop_all_told();
  cluster.run_for(1);
  ASSERT_TRUE(cluster.seen(2).finish);
  EXPECT_EQ(cluster.seen(2).finish->verdict.exit, Exit::requeue);
  EXPECT_EQ(cluster.seen(0).rounds.back().seats.size(), 2U);
  EXPECT_EQ(cluster.seen(0).rounds.back().restart_count, 1);
}

TEST(Stopping, WhoLeftWithoutSavingSaysSoAlsoWhenTheOthersHaveGoneOn) {
  for (const bool saved : {false, true}) {
    Cluster cluster(hosts(1, 2, 1));
    start(cluster, 2);
    cluster.mute(1, true);  // the answer to what it says now comes late
    cluster.give(1, StopAsked{});
    cluster.end_ranks(1, Kind::stopped_on_request, -1, saved);
    cluster.tell_gone(1, true);
    cluster.stop_all_told();
    cluster.run_for(0.1);
    ASSERT_EQ(cluster.state().generation, cluster.seen(0).rounds.back().generation);
    ASSERT_GT(cluster.seen(0).rounds.back().generation, cluster.seen(1).rounds.back().generation);
    cluster.mute(1, false);
    cluster.run_for(1);
    ASSERT_TRUE(cluster.seen(1).finish);
    EXPECT_EQ(cluster.seen(1).finish->verdict.exit, saved ? Exit::requeue : Exit::failed);
  }
}

TEST(Stopping, TheHostThatHasTheBoardTakesTheJobAlong) {
  NodeSettings settings = hosts(1, 2, 5);
  settings.ends_with_leader = true;
  Cluster cluster(settings);
  start(cluster, 2);
  cluster.give(0, StopAsked{});
  cluster.end_ranks(0, Kind::stopped_on_request, 7, true);
  cluster.end_ranks(1, Kind::interrupted, 7, true);
  cluster.run_for(1);
  EXPECT_EQ(cluster.seen(0).finish->verdict.exit, Exit::requeue);
  EXPECT_EQ(cluster.seen(1).finish->verdict.exit, Exit::requeue);
}

TEST(Stopping, BeforeTheFirstRoundAHostMayGoAndTheOthersWaitOn) {
  Cluster cluster(hosts(3, 3));
  cluster.add("a");
  cluster.add("b");
  cluster.give(1, StopAsked{});
  cluster.run_for(1);
  ASSERT_TRUE(cluster.seen(1).finish);
  EXPECT_FALSE(cluster.seen(0).finish);
  cluster.add("c");
  cluster.add("d");
  cluster.run_for(0.1);
  EXPECT_EQ(cluster.rounds(0), 1);
}

}  // namespace
}  // namespace lockstep::rendezvous
