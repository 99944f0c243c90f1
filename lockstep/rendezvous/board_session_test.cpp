#include "lockstep/rendezvous/board_session.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <future>

#include "lockstep/rendezvous/memory_board_testing.h"
#include "tests/support/problem_of.h"

namespace lockstep::rendezvous {
namespace {

using Next = std::variant<Round, Verdict>;

Agent agent_named(const std::string& id) {
  Agent agent;
  agent.id = id;
  agent.host = "host-" + id;
  agent.address = "10.0.0.1";
  agent.pid = 42;
  agent.ranks = 2;
  agent.store_port = 29500;
  agent.equal["version"] = "1";
  return agent;
}

NodeSettings settings_for(int hosts) {
  NodeSettings settings;
  settings.run_id = "job";
  settings.min_nodes = settings.max_nodes = hosts;
  return settings;
}

/// Sessions of one job, each used by a thread.
class Sessions {
 public:
  std::unique_ptr<BoardSession> open(const Agent& agent, const NodeSettings& settings) {
    return std::make_unique<BoardSession>(std::make_unique<testing::MemoryBoard>(hub_, agent.id),
                                          agent, settings, [this](const std::string& note) {
                                            const std::lock_guard lock(mutex_);
                                            notes_ += note + "\n";
                                          });
  }
  [[nodiscard]] std::string notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  testing::MemoryHub& hub() { return hub_; }

 private:
  testing::MemoryHub hub_;
  std::mutex mutex_;
  std::string notes_;
};

void in_threads(const std::vector<std::function<void()>>& bodies) {
  std::vector<std::thread> threads;
  for (const auto& body : bodies) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}

/// Waits for the next round. An end of the job instead fails the test.
Round round_of(BoardSession& session) {
  const Next next = session.next(-1);
  if (const auto* verdict = std::get_if<Verdict>(&next)) {
    ADD_FAILURE() << "the job ended: " << verdict->because;
    return {};
  }
  return std::get<Round>(next);
}

Verdict verdict_of(BoardSession& session, int stop_fd = -1) {
  const Next next = session.next(stop_fd);
  if (std::holds_alternative<Round>(next)) {
    ADD_FAILURE() << "round " << std::get<Round>(next).generation << " came";
    return {};
  }
  return std::get<Verdict>(next);
}

[[nodiscard]] bool await_interrupt(const BoardSession& session) {
  pollfd readable{session.interrupt_fd(), POLLIN, 0};
  return ::poll(&readable, 1, 30'000) == 1;
}

RoundEnd ended(RoundEnd::Kind kind) {
  RoundEnd end;
  end.kind = kind;
  return end;
}

RoundEnd failed(const std::string& host) {
  RoundEnd end = ended(RoundEnd::Kind::failed);
  end.failure.host = host;
  end.failure.rank = 3;
  end.failure.because = "killed by SIGKILL";
  return end;
}

TEST(BoardSession, GivesAllHostsTheSameRoundAndTheSameVerdict) {
  Sessions sessions;
  const auto host = [&](const std::string& id) {
    return [&, id] {
      const auto session = sessions.open(agent_named(id), settings_for(3));
      const Round round = round_of(*session);
      EXPECT_EQ(round.generation, 1);
      EXPECT_EQ(round.world_size(), 6);
      EXPECT_EQ(round.seats.at(round.own_seat).agent.id, id);
      EXPECT_EQ(round.seats.at(round.own_seat).base_rank, 2 * static_cast<int>(round.own_seat));
      EXPECT_EQ(round.master_port, 29500);
      EXPECT_LT(session->fence_at(), Deadline::max());
      session->report(ended(RoundEnd::Kind::succeeded));
      EXPECT_EQ(verdict_of(*session).exit, Exit::ok);
    };
  };
  in_threads({host("a"), host("b"), host("c")});
}

TEST(BoardSession, AFailureStopsTheOtherHostsAndStartsAllAgain) {
  Sessions sessions;
  NodeSettings settings = settings_for(2);
  settings.max_restarts = 1;
  std::promise<void> has_round;
  in_threads({[&] {
                const auto session = sessions.open(agent_named("a"), settings);
                (void)round_of(*session);
                has_round.set_value();
                ASSERT_TRUE(await_interrupt(*session));
                EXPECT_EQ(session->interrupt_reason(),
                          "rank 3 on host-b (pid 0): killed by SIGKILL");
                EXPECT_FALSE(session->is_fenced());
                session->report(ended(RoundEnd::Kind::interrupted));
                const Round again = round_of(*session);
                EXPECT_EQ(again.generation, 2);
                EXPECT_EQ(again.restart_count, 1);
                session->report(ended(RoundEnd::Kind::succeeded));
                EXPECT_EQ(verdict_of(*session).exit, Exit::ok);
              },
              [&] {
                const auto session = sessions.open(agent_named("b"), settings);
                (void)round_of(*session);
                has_round.get_future().wait();
                session->failing(failed("host-b").failure);
                session->report(failed("host-b"));
                EXPECT_EQ(round_of(*session).generation, 2);
                session->report(ended(RoundEnd::Kind::succeeded));
                EXPECT_EQ(verdict_of(*session).exit, Exit::ok);
              }});
}

TEST(BoardSession, WithoutARestartLeftTheVerdictNamesTheRankOnAllHosts) {
  Sessions sessions;
  std::promise<void> has_round;
  in_threads({[&] {
                const auto session = sessions.open(agent_named("a"), settings_for(2));
                (void)round_of(*session);
                has_round.set_value();
                ASSERT_TRUE(await_interrupt(*session));
                session->report(ended(RoundEnd::Kind::interrupted));
                const Verdict verdict = verdict_of(*session);
                EXPECT_EQ(verdict.exit, Exit::failed);
                ASSERT_TRUE(verdict.first);
                EXPECT_EQ(verdict.first->host, "host-b");
              },
              [&] {
                const auto session = sessions.open(agent_named("b"), settings_for(2));
                (void)round_of(*session);
                has_round.get_future().wait();
                session->report(failed("host-b"));
                const Verdict verdict = verdict_of(*session);
                ASSERT_TRUE(verdict.first);
                EXPECT_EQ(verdict.first->rank, 3);
              }});
}

TEST(BoardSession, AnotherEnvironmentIsRefusedWithBothValues) {
  Sessions sessions;
  const auto first = sessions.open(agent_named("a"), settings_for(2));
  Agent other = agent_named("b");
  other.equal["version"] = "2";
  const auto second = sessions.open(other, settings_for(2));
  try {
    (void)second->next(-1);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().front().code, "LS-3023");
    EXPECT_EQ(error.problems().front().what,
              "hosts differ: version is '2' on host-b (pid 42) and '1' on host-a (pid 42)");
  }
  EXPECT_NE(sessions.notes().find("refused host-b (pid 42)"), std::string::npos);
}

TEST(BoardSession, AStopWhileWaitingEndsTheWait) {
  Sessions sessions;
  NodeSettings settings = settings_for(2);
  settings.ends_with_leader = true;
  const auto session = sessions.open(agent_named("a"), settings);
  const Fd stop(::eventfd(1, EFD_CLOEXEC));
  const Verdict verdict = verdict_of(*session, stop.get());
  EXPECT_EQ(verdict.exit, Exit::requeue);
  EXPECT_EQ(verdict.because, "host-a (pid 42) was asked to stop");
}

TEST(BoardSession, AHostThatIsCutOffKillsItsRanksInTime) {
  Sessions sessions;
  NodeSettings settings = settings_for(2);
  settings.ends_with_leader = true;
  settings.times = {.heartbeat_s = 0.1, .fence_s = 0.5, .lost_s = 0.8};
  const auto first = sessions.open(agent_named("a"), settings);
  const auto second = sessions.open(agent_named("b"), settings);
  (void)round_of(*first);
  (void)round_of(*second);
  sessions.hub().cut_off("b");
  ASSERT_TRUE(await_interrupt(*second));
  EXPECT_TRUE(second->is_fenced());
  EXPECT_GE(std::chrono::steady_clock::now(), second->fence_at());
  second->report(ended(RoundEnd::Kind::interrupted));
  EXPECT_EQ(test::problem_of<EnvironmentFault>([&] { (void)verdict_of(*second); }).code, "LS-3064");
  ASSERT_TRUE(await_interrupt(*first));
  EXPECT_NE(first->interrupt_reason().find("host-b (pid 42)"), std::string::npos);
  first->report(ended(RoundEnd::Kind::interrupted));
  EXPECT_EQ(verdict_of(*first).exit, Exit::failed);
}

TEST(BoardSession, AnotherHostGoesOnWhenTheOneThatLedHasGone) {
  Sessions sessions;
  NodeSettings settings = settings_for(2);
  settings.min_nodes = 1;
  settings.max_restarts = 1;
  settings.times = {.heartbeat_s = 0.1, .fence_s = 0.5, .lost_s = 0.8};
  auto first = sessions.open(agent_named("a"), settings);
  const auto second = sessions.open(agent_named("b"), settings);
  EXPECT_EQ(round_of(*first).seats.size(), 2U);
  (void)round_of(*second);
  first.reset();
  ASSERT_TRUE(await_interrupt(*second));
  second->report(ended(RoundEnd::Kind::interrupted));
  const Round round = round_of(*second);
  EXPECT_EQ(round.generation, 2);
  EXPECT_EQ(round.seats.size(), 1U);
  second->report(ended(RoundEnd::Kind::succeeded));
  EXPECT_EQ(verdict_of(*second).exit, Exit::ok);
}

}  // namespace
}  // namespace lockstep::rendezvous
