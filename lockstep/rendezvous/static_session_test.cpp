#include "lockstep/rendezvous/static_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/store/client.h"
#include "tests/support/eventually.h"
#include "tests/support/problem_of.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Kind = RoundEnd::Kind;
using Outcome = std::variant<Round, Verdict>;

StaticSettings settings_of(int node, int nodes, int port) {
  StaticSettings settings;
  settings.agent.id = "agent-" + std::to_string(node);
  settings.agent.host = "host" + std::to_string(node);
  settings.agent.pid = 1000 + node;
  settings.agent.node_rank = node;
  settings.agent.ranks = 2;
  settings.job.run_id = "job";
  settings.job.min_nodes = settings.job.max_nodes = nodes;
  settings.job.join_timeout_s = 10;
  settings.endpoint = {"127.0.0.1", port};
  return settings;
}

int free_port() { return listen_on("127.0.0.1", 0).port; }

std::future<Outcome> next_of(StaticSession& session, int stop_fd = -1) {
  return std::async(std::launch::async, [&session, stop_fd] { return session.next(stop_fd); });
}

/// Two hosts that run through their rounds together.
class Pair {
 public:
  explicit Pair(int max_restarts = 0) {
    const int port = free_port();
    for (int node = 0; node < 2; ++node) {
      StaticSettings settings = settings_of(node, 2, port);
      settings.job.max_restarts = max_restarts;
      settings.job.times.lost_s = 1;
      hosts_[static_cast<std::size_t>(node)] = std::make_unique<StaticSession>(settings);
    }
  }
  StaticSession& host(int node) { return *hosts_[static_cast<std::size_t>(node)]; }
  void kill(int node) { hosts_[static_cast<std::size_t>(node)].reset(); }
  std::pair<Outcome, Outcome> next() {
    auto first = next_of(host(0));
    auto second = next_of(host(1));
    return {first.get(), second.get()};
  }

 private:
  std::array<std::unique_ptr<StaticSession>, 2> hosts_;
};

bool is_interrupted(const StaticSession& session) {
  pollfd ready{session.interrupt_fd(), POLLIN, 0};
  return ::poll(&ready, 1, 10'000) > 0;
}

RoundEnd failed_end(int rank, bool consequence = false) {
  RoundEnd end;
  end.kind = Kind::failed;
  end.failure.host = "host" + std::to_string(rank / 2);
  end.failure.rank = rank;
  end.failure.exit_code = 1;
  end.failure.because = "exit code 1";
  end.failure.consequence = consequence;
  return end;
}

RoundEnd ended(Kind kind) {
  RoundEnd end;
  end.kind = kind;
  return end;
}

TEST(RoleInfo, IsWrittenAsPythonsJsonWritesItAndReadBack) {
  const RoleInfo info{"tr\"äiner", 2};
  EXPECT_EQ(to_json_text(info, 3),
            R"({"role": "tr\"\u00e4iner", "rank": 3, "local_world_size": 2})");
  EXPECT_EQ(role_info_from(to_json_text(info, 3), 3), info);
}

TEST(RoleInfo, WhatIsNoneIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"role": "a", "rank": 1, "local_world_size": 2})",
                           R"({"role": "a", "rank": 0, "local_world_size": 0})",
                           R"({"role": "a", "rank": 0, "local_world_size": 1e12})",
                           R"({"role": 3, "rank": 0, "local_world_size": 1})"}) {
    EXPECT_EQ(test::problem_of<BadData>([&] { (void)role_info_from(text, 0); }).code, "LS-3067")
        << text;
  }
}

TEST(RoleInfo, RanksAreAssignedInTheOrderOfNodesAndWithinRoles) {
  const auto texts = assigned_ranks({{"a", 2}, {"b", 1}, {"a", 3}});
  EXPECT_EQ(texts, (std::vector<std::string>{"[0, 6, 0, 5]", "[2, 6, 0, 1]", "[3, 6, 2, 5]"}));
}

TEST(StaticSession, TwoHostsMeetAndEndTogether) {
  Pair pair;
  const auto [first, second] = pair.next();
  const Round& round = std::get<Round>(second);
  EXPECT_EQ(round.seats.size(), 2U);
  EXPECT_EQ(round.own_seat, 1U);
  EXPECT_EQ(round.seats[1].base_rank, 2);
  EXPECT_EQ(round.seats[0].agent.host, "host0");
  EXPECT_EQ(round.world_size(), 4);
  EXPECT_EQ(std::get<Round>(first).own_seat, 0U);
  store::Client rank(round.master_addr, round.master_port, 5s);
  EXPECT_EQ(rank.add("as a rank does", 1), 1);
  pair.host(1).report(ended(Kind::succeeded));
  auto waiting = next_of(pair.host(1));
  EXPECT_EQ(waiting.wait_for(200ms), std::future_status::timeout) << "host 0 has not ended";
  pair.host(0).report(ended(Kind::succeeded));
  EXPECT_EQ(std::get<Verdict>(pair.host(0).next(-1)).exit, Exit::ok);
  EXPECT_EQ(std::get<Verdict>(waiting.get()).exit, Exit::ok);
}

TEST(StaticSession, AFailureEndsTheRoundOnAllHostsAndCountsOneRestart) {
  Pair pair(1);
  (void)pair.next();
  pair.host(1).failing(failed_end(3).failure);
  ASSERT_TRUE(is_interrupted(pair.host(0)));
  EXPECT_EQ(pair.host(0).interrupt_reason(), "rank 3 on host1 (pid 0): exit code 1");
  pair.host(0).report(ended(Kind::interrupted));
  pair.host(1).report(failed_end(3));
  const auto [first, second] = pair.next();
  EXPECT_EQ(std::get<Round>(first).restart_count, 1);
  EXPECT_EQ(std::get<Round>(second).restart_count, 1);

  // The last restart is used: the next failure ends the job, on both hosts for one cause.
  pair.host(1).report(failed_end(2));
  pair.host(0).report(failed_end(0));
  const auto [end0, end1] = pair.next();
  for (const auto& end : {end0, end1}) {
    EXPECT_EQ(std::get<Verdict>(end).exit, Exit::failed);
    ASSERT_TRUE(std::get<Verdict>(end).first.has_value());
  }
  EXPECT_EQ(std::get<Verdict>(end0).first->rank, 2) << "who failed first was not kept";
  EXPECT_EQ(std::get<Verdict>(end1).first->rank, 2);
}

TEST(StaticSession, TheCauseIsNamedOnTheHostThatLostAPeerFromIt) {
  Pair pair;
  (void)pair.next();
  auto reporting =
      std::async(std::launch::async, [&] { pair.host(0).report(failed_end(0, true)); });
  pair.host(1).report(failed_end(3));
  reporting.wait();
  const auto [end0, end1] = pair.next();
  EXPECT_EQ(std::get<Verdict>(end0).first->rank, 3);
  ASSERT_EQ(std::get<Verdict>(end0).consequences.size(), 1U);
  EXPECT_EQ(std::get<Verdict>(end0).consequences[0].rank, 0);
  EXPECT_EQ(std::get<Verdict>(end1).first->rank, 3);
}

TEST(StaticSession, AHostThatSucceededRestartsWithOneThatFailed) {
  Pair pair(1);
  (void)pair.next();
  pair.host(0).report(ended(Kind::succeeded));
  auto again = next_of(pair.host(0));
  pair.host(1).report(failed_end(2));
  EXPECT_EQ(std::get<Round>(pair.host(1).next(-1)).restart_count, 1);
  EXPECT_EQ(std::get<Round>(again.get()).restart_count, 1);
}

TEST(StaticSession, WhoIsAskedToStopStopsAll) {
  Pair pair(3);
  (void)pair.next();
  pair.host(0).leaving();
  ASSERT_TRUE(is_interrupted(pair.host(1)));
  EXPECT_EQ(pair.host(1).interrupt_reason(), "host0 (pid 1000) was asked to stop");
  RoundEnd saved = ended(Kind::interrupted);
  saved.saved = true;
  pair.host(1).report(saved);
  saved.kind = Kind::stopped_on_request;
  pair.host(0).report(saved);
  const auto [end0, end1] = pair.next();
  EXPECT_EQ(std::get<Verdict>(end0).exit, Exit::requeue);
  EXPECT_EQ(std::get<Verdict>(end1).exit, Exit::requeue);
}

TEST(StaticSession, AHostThatGoesIsNoticedAndNamed) {
  Pair pair;
  (void)pair.next();
  pair.kill(1);
  ASSERT_TRUE(is_interrupted(pair.host(0)));
  EXPECT_NE(pair.host(0).interrupt_reason().find("host1 (pid 1001) was lost"), std::string::npos);
  EXPECT_FALSE(pair.host(0).is_fenced());
}

TEST(StaticSession, TheEndOfNode0IsNoticedAtOnce) {
  Pair pair(3);
  (void)pair.next();
  const auto start = std::chrono::steady_clock::now();
  pair.kill(0);
  ASSERT_TRUE(is_interrupted(pair.host(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  EXPECT_TRUE(pair.host(1).is_fenced());
  pair.host(1).report(ended(Kind::interrupted));
  const Verdict verdict = std::get<Verdict>(pair.host(1).next(-1));
  EXPECT_EQ(verdict.exit, Exit::failed) << "without node 0 there is nothing to restart with";
  EXPECT_NE(verdict.because.find("the store of node 0"), std::string::npos);
}

TEST(StaticSession, AHostThatSucceededDoesNotTakeTheEndOfNode0ForSuccess) {
  Pair pair(3);
  (void)pair.next();
  pair.host(1).report(ended(Kind::succeeded));
  auto waiting = next_of(pair.host(1));
  EXPECT_EQ(waiting.wait_for(200ms), std::future_status::timeout) << "host 0 has not ended";
  pair.kill(0);
  const Verdict verdict = std::get<Verdict>(waiting.get());
  EXPECT_EQ(verdict.exit, Exit::failed);
  EXPECT_NE(verdict.because.find("this host's ranks had succeeded"), std::string::npos);
}

TEST(StaticSession, ANodeRankIsTakenOnceAndBothAreNamed) {
  const int port = free_port();
  StaticSession node0(settings_of(0, 3, port));
  auto waiting = next_of(node0);
  for (const int node : {1, 0}) {
    std::future<Outcome> first;
    StaticSession taken(settings_of(node, 3, port));
    if (node == 1) {
      first = next_of(taken);
      ASSERT_TRUE(test::eventually([&] {
        store::Client client("127.0.0.1", port, 5s);
        return client.check({"job/torchelastic/role_info/1"});
      }));
    }
    StaticSettings twice = settings_of(node, 3, port);
    twice.agent.id = "another";
    twice.agent.pid = 4711;
    StaticSession second(twice);
    const Problem problem = test::problem_of<UsageError>([&] { (void)second.next(-1); });
    EXPECT_EQ(problem.code, "LS-3022");
    EXPECT_NE(problem.what.find("node " + std::to_string(node) + " already joined by pid " +
                                std::to_string(1000 + node)),
              std::string::npos)
        << problem.what;
    EXPECT_NE(problem.what.find("pid 4711"), std::string::npos) << problem.what;
    if (node != 1) continue;
    store::Client client("127.0.0.1", port, 5s);
    client.set("job/torchelastic/role_info/2", {'x'});  // ends all that wait, with LS-3067
    EXPECT_THROW((void)first.get(), BadData);
  }
  EXPECT_THROW((void)waiting.get(), BadData);
}

TEST(StaticSession, WhatMustBeEqualIsComparedOnEveryHost) {
  const int port = free_port();
  StaticSession node0(settings_of(0, 2, port));
  StaticSettings other = settings_of(1, 2, port);
  other.job.max_restarts = 7;
  StaticSession node1(other);
  auto first = next_of(node0);
  auto second = next_of(node1);
  for (auto* outcome : {&first, &second}) {
    const Problem problem = test::problem_of<UsageError>([&] { (void)outcome->get(); });
    EXPECT_NE(problem.what.find("max_restarts"), std::string::npos) << problem.what;
  }
}

TEST(StaticSession, HostsThatDoNotComeAreNamed) {
  StaticSettings settings = settings_of(0, 3, free_port());
  settings.job.join_timeout_s = 0.2;
  StaticSession session(settings);
  const Problem problem = test::problem_of<EnvironmentFault>([&] { (void)session.next(-1); });
  EXPECT_EQ(problem.code, "LS-3068");
  EXPECT_NE(problem.what.find("node 1, 2 of 3 has not come; there are: 0 (host0)"),
            std::string::npos)
      << problem.what;
}

TEST(StaticSession, AWaitForOthersEndsWhenItIsAskedToStop) {
  const int port = free_port();
  const Fd stop(::eventfd(0, EFD_CLOEXEC));
  StaticSession node0(settings_of(0, 3, port));
  StaticSession node1(settings_of(1, 3, port));
  auto first = next_of(node0, stop.get());
  auto second = next_of(node1, stop.get());
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(stop.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  EXPECT_EQ(std::get<Verdict>(first.get()).exit, Exit::failed);
  EXPECT_EQ(std::get<Verdict>(second.get()).exit, Exit::failed);
}

TEST(StaticSession, AnotherProgramAtThePortIsNamed) {
  const Listener other = listen_on("127.0.0.1", 0);
  StaticSession session(settings_of(0, 2, other.port));
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = test::problem_of<EnvironmentFault>([&] { (void)session.next(-1); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_EQ(problem.code, "LS-3001");
  EXPECT_NE(problem.what.find("pid " + std::to_string(::getpid())), std::string::npos);
}

}  // namespace
}  // namespace lockstep::rendezvous
