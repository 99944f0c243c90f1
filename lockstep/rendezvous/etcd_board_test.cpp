#include "lockstep/rendezvous/etcd_board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/rendezvous/etcd_membership.h"
#include "tests/support/etcd_server.h"
#include "tests/support/problem_of.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;
using Kind = BoardEvent::Kind;

/// One etcd for all tests of this file; each takes a prefix of its own.
class EtcdBoardTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<test::EtcdServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static test::EtcdServer& server() { return *server_; }

  [[nodiscard]] static std::string prefix() {
    return std::string("test/") + testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  [[nodiscard]] static EtcdBoardOptions options_of(const std::string& agent) {
    return {server().endpoints(), prefix(), agent, {}, {}};
  }

 private:
  static std::unique_ptr<test::EtcdServer> server_;
};

std::unique_ptr<test::EtcdServer> EtcdBoardTest::server_;

const BoardEvent* find_in(const std::vector<BoardEvent>& told, Kind kind,
                          const std::string& agent = {}, const std::string& bytes = {}) {
  const auto found = std::find_if(told.begin(), told.end(), [&](const auto& e) {
    return e.kind == kind && (agent.empty() || e.agent == agent) &&
           (bytes.empty() || e.bytes == bytes);
  });
  return found == told.end() ? nullptr : &*found;
}

/// An agent that publishes every half second, as they do, and collects what it is told.
struct Agent {
  explicit Agent(EtcdBoardOptions options)
      : board(std::make_unique<EtcdBoard>(std::move(options))) {}

  /// Until it was told that, for ten seconds at most.
  const BoardEvent* wait_for(Kind kind, const std::string& agent = {},
                             const std::string& bytes = {}) {
    const auto end = Clock::now() + 10s;
    while (Clock::now() < end && find_in(told, kind, agent, bytes) == nullptr) look();
    return find_in(told, kind, agent, bytes);
  }
  void look() {
    if (Clock::now() >= publish_at) {
      publish_at = Clock::now() + 500ms;
      board->publish("record " + std::to_string(++number));
    }
    for (auto& event : board->wait(Clock::now() + 50ms, -1)) told.push_back(std::move(event));
  }

  std::unique_ptr<EtcdBoard> board;
  std::vector<BoardEvent> told{};
  Clock::time_point publish_at{};
  int number = 0;
};

EtcdWrites record_only(const std::string& record) {
  EtcdWrites writes;
  writes.record = record;
  writes.published = Clock::now();
  return writes;
}

TEST_F(EtcdBoardTest, TheFirstLeadsAndTheOthersFollow) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  Agent b(options_of("b"));
  ASSERT_NE(b.wait_for(Kind::not_leading, "a"), nullptr);
  ASSERT_NE(b.wait_for(Kind::heard), nullptr);
  ASSERT_NE(a.wait_for(Kind::record, "b", "record 1"), nullptr);
  ASSERT_NE(a.wait_for(Kind::record, "a"), nullptr) << "its own record, too";
  a.board->announce("state 1");
  ASSERT_NE(a.wait_for(Kind::state, {}, "state 1"), nullptr);
  ASSERT_NE(b.wait_for(Kind::state, {}, "state 1"), nullptr);
  b.board->announce("not mine to say");
  b.told.clear();
  ASSERT_NE(b.wait_for(Kind::heard), nullptr);
  ASSERT_NE(b.wait_for(Kind::heard), nullptr);
  EXPECT_EQ(find_in(b.told, Kind::state), nullptr);
}

TEST_F(EtcdBoardTest, AnAnswerCarriesTheTimeOfItsRecord) {
  Agent a(options_of("a"));
  const auto before = Clock::now();
  const BoardEvent* heard = a.wait_for(Kind::heard);
  ASSERT_NE(heard, nullptr);
  EXPECT_GE(heard->at, before);
  EXPECT_LE(heard->at, Clock::now());
}

TEST_F(EtcdBoardTest, WhenTheLeaderIsKilledAnotherGoesOnFromTheLastState) {
  // A membership that takes no more turns is an agent that was killed.
  EtcdMembership killed(server().endpoints(), prefix(), "killed");
  std::vector<BoardEvent> told;
  EtcdWrites writes = record_only("here");
  killed.take_turn(writes, told);
  ASSERT_NE(find_in(told, Kind::leading), nullptr);
  writes.state = "state 7";
  writes.term = 1;
  Agent b(options_of("b"));
  ASSERT_NE(b.wait_for(Kind::not_leading, "killed"), nullptr);
  killed.take_turn(writes, told);
  const auto start = Clock::now();
  const BoardEvent* leading = b.wait_for(Kind::leading);
  ASSERT_NE(leading, nullptr);
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_GT(Clock::now() - start, 2500ms) << "before the killed agent's ranks had to end";
  EXPECT_EQ(leading->bytes, "state 7");
  const BoardEvent* gone = b.wait_for(Kind::gone, "killed");
  ASSERT_NE(gone, nullptr);
  EXPECT_TRUE(gone->proven);
}

TEST_F(EtcdBoardTest, WhoLeavesIsReplacedAtOnce) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  Agent b(options_of("b"));
  ASSERT_NE(b.wait_for(Kind::not_leading, "a"), nullptr);
  ASSERT_NE(b.wait_for(Kind::heard), nullptr);
  const auto start = Clock::now();
  a.board.reset();
  ASSERT_NE(b.wait_for(Kind::leading), nullptr);
  EXPECT_LT(Clock::now() - start, 1500ms);
  const BoardEvent* gone = b.wait_for(Kind::gone, "a");
  ASSERT_NE(gone, nullptr);
  EXPECT_FALSE(gone->proven) << "its lease had not ended";
}

TEST_F(EtcdBoardTest, AnAgentThatIsKilledIsGoneOnceItsLeaseEnds) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  EtcdMembership killed(server().endpoints(), prefix(), "killed");
  std::vector<BoardEvent> told;
  killed.take_turn(record_only("here"), told);
  ASSERT_NE(a.wait_for(Kind::record, "killed", "here"), nullptr);
  const BoardEvent* gone = a.wait_for(Kind::gone, "killed");
  ASSERT_NE(gone, nullptr);
  EXPECT_TRUE(gone->proven);
}

TEST_F(EtcdBoardTest, WhatAFormerLeaderAnnouncesIsRefused) {
  EtcdMembership former(server().endpoints(), prefix(), "former");
  std::vector<BoardEvent> told;
  former.take_turn(record_only("here"), told);
  ASSERT_NE(find_in(told, Kind::leading), nullptr);
  Agent b(options_of("b"));
  ASSERT_NE(b.wait_for(Kind::leading), nullptr);  // the former leader was silent for too long
  b.board->announce("of the present leader");
  ASSERT_NE(b.wait_for(Kind::state, {}, "of the present leader"), nullptr);
  EtcdWrites late;
  late.state = "of the former leader";
  late.term = 1;
  told.clear();
  former.take_turn(late, told);
  EXPECT_NE(find_in(told, Kind::not_leading), nullptr);
  EXPECT_NE(find_in(told, Kind::state, {}, "of the present leader"), nullptr);
}

TEST_F(EtcdBoardTest, WhatWasAnnouncedInAnEarlierTermIsNotWrittenInALaterOne) {
  EtcdMembership agent(server().endpoints(), prefix(), "a");
  std::vector<BoardEvent> told;
  agent.take_turn(record_only("here"), told);
  agent.leave();
  agent.take_turn(record_only("again"), told);  // sees that the key is gone, and makes it anew
  agent.take_turn({}, told);
  ASSERT_NE(find_in(told, Kind::not_leading), nullptr);
  EtcdWrites writes;
  writes.state = "of the first term";
  writes.term = 1;
  agent.take_turn(writes, told);
  EXPECT_EQ(find_in(told, Kind::state), nullptr);
  writes.term = 2;
  agent.take_turn(writes, told);
  EXPECT_NE(find_in(told, Kind::state), nullptr);
}

TEST_F(EtcdBoardTest, LosingEtcdForAMomentIsNotTheEnd) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  a.board->announce("state 1");
  ASSERT_NE(a.wait_for(Kind::state), nullptr);
  server().end();
  const auto end = Clock::now() + 1s;
  while (Clock::now() < end) a.look();
  server().start();
  a.told.clear();
  ASSERT_NE(a.wait_for(Kind::heard), nullptr);
  a.board->announce("state 2");
  ASSERT_NE(a.wait_for(Kind::state, {}, "state 2"), nullptr);
}

TEST_F(EtcdBoardTest, ALeaderThatGetsNoAnswerStopsLeadingAndMayLeadAgain) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  server().pause();
  const bool stopped = a.wait_for(Kind::not_leading) != nullptr;
  server().resume();
  ASSERT_TRUE(stopped);
  a.told.clear();
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
}

TEST_F(EtcdBoardTest, AServerThatAnswersIsFoundAmongSeveral) {
  EtcdBoardOptions options = options_of("a");
  const Endpoint nobody{"127.0.0.1", listen_on("127.0.0.1", 0).port};
  options.endpoints = {nobody, nobody, server().endpoints()[0]};
  Agent a(options);
  EXPECT_NE(a.wait_for(Kind::leading), nullptr);
}

Problem problem_at(int port) {
  EtcdBoardOptions options{{{"127.0.0.1", port}}, "p", "a", {}, {}};
  options.times.first = 300ms;
  EtcdBoard board(options);
  return test::problem_of<EnvironmentFault>([&] { (void)board.wait(Clock::now() + 10s, -1); });
}

TEST(EtcdBoard, NoEtcdIsSaidWithTheReason) {
  const int free_port = listen_on("127.0.0.1", 0).port;
  const Problem nobody = problem_at(free_port);
  EXPECT_EQ(nobody.code, "LS-3065");
  EXPECT_NE(nobody.what.find("Connection refused"), std::string::npos) << nobody.what;
  const Listener silent = listen_on("127.0.0.1", 0);
  const Problem mute = problem_at(silent.port);
  EXPECT_EQ(mute.code, "LS-3065");
  EXPECT_NE(mute.what.find("127.0.0.1:" + std::to_string(silent.port)), std::string::npos)
      << mute.what;
}

}  // namespace
}  // namespace lockstep::rendezvous
