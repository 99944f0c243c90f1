#include "lockstep/rendezvous/etcd_board.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/rendezvous/etcd_membership.h"
#include "tests/support/etcd_server.h"
#include "tests/support/problem_of.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;
using Kind = BoardEvent::Kind;

/// One etcd for all tests of this file; each takes a prefix of its own.
class EtcdBoardTest : public testing::Test {
 public:
  static void SetUpTestSuite() { server_ = std::make_unique<test::EtcdServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static test::EtcdServer& server() { return *server_; }

  [[nodiscard]] static std::string prefix() {
    return std::string("test/") + testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  [[nodiscard]] static std::vector<Endpoint> endpoints() { return server().endpoints(); }
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
  ASSERT_NE(b.wait_for(Kind::listed), nullptr);
  EXPECT_EQ(find_in(b.told, Kind::record, "killed"), nullptr) << "its lease has ended";
}

/// A key as it stands, by a client of its own.
std::optional<std::string> value_of(const std::string& key) {
  EtcdClient client(EtcdBoardTest::endpoints());
  const EtcdAnswer answer = client.transact({}, {{EtcdOperation::Kind::range, key}}, {});
  if (answer.ranges.at(0).empty()) return std::nullopt;
  return answer.ranges.at(0)[0].value;
}

TEST_F(EtcdBoardTest, TheStateStaysWhileSomebodyLeadsAndGoesAWhileAfter) {
  EtcdBoardOptions options = options_of("a");
  options.times.state_life = 2s;
  std::optional<Agent> a(std::in_place, options);
  ASSERT_NE(a->wait_for(Kind::leading), nullptr);
  a->board->announce("state 1");
  ASSERT_NE(a->wait_for(Kind::state), nullptr);
  for (const auto end = Clock::now() + 5s; Clock::now() < end;) a->look();
  EXPECT_EQ(value_of(prefix() + "/state"), "state 1");
  a.reset();
  EXPECT_TRUE(test::eventually([&] { return !value_of(prefix() + "/state"); }));
}

TEST_F(EtcdBoardTest, AWatchTellsThatTheStateHasChanged) {
  EtcdClient client(server().endpoints());
  const std::string state = prefix() + "/state";
  const Fd watch = client.watch(prefix() + "/leader", state + '\0');
  const auto has_news = [&] {
    pollfd ready{watch.get(), POLLIN, 0};
    if (::poll(&ready, 1, 5000) <= 0) return false;
    std::array<char, 4096> said;
    return ::recv(watch.get(), said.data(), said.size(), 0) > 0;
  };
  EXPECT_TRUE(has_news()) << "etcd agrees";
  (void)client.transact({}, {{EtcdOperation::Kind::put, prefix() + "/agents/x", "not of these"}},
                        {});
  (void)client.transact({}, {{EtcdOperation::Kind::put, state, "1"}}, {});
  EXPECT_TRUE(has_news());
  pollfd quiet{watch.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&quiet, 1, 100), 0) << "nothing else was written";
}

TEST_F(EtcdBoardTest, AFollowerHearsOfAStateLongBeforeItLooksByItself) {
  Agent a(options_of("a"));
  ASSERT_NE(a.wait_for(Kind::leading), nullptr);
  EtcdBoardOptions options = options_of("b");
  options.times.watched = 1min;
  EtcdBoard b(options);
  b.publish("the only one");
  std::vector<BoardEvent> told;
  const auto hears = [&](const std::string& state) {
    a.board->announce(state);
    for (const auto end = Clock::now() + 10s; Clock::now() < end;) {
      a.look();
      for (auto& event : b.wait(Clock::now(), -1)) told.push_back(std::move(event));
      if (find_in(told, Kind::state, {}, state) != nullptr) return true;
    }
    return false;
  };
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(hears("state " + std::to_string(i))) << i;
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

TEST(EtcdBoard, AServerThatSpeaksTlsOnlyIsToldAtOnceWithWhatToDo) {
  for (const std::string& says :
       {std::string("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS "
                    "server.\n"),
        std::string("\x15\x03\x01\x00\x02\x02\x46", 7),
        std::string()}) {  // etcd itself: it answers nothing but the beginning of TLS
    const Listener listener = listen_on("127.0.0.1", 0);
    std::thread server([&] {
      for (const bool is_last : {!says.empty(), true}) {
        pollfd ready{listener.fd.get(), POLLIN, 0};
        ::poll(&ready, 1, 5000);
        const Fd client(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
        std::array<char, 4096> request;
        (void)::recv(client.get(), request.data(), request.size(), 0);
        const std::string answer = says.empty() && is_last && request[0] == 0x16
                                       ? std::string("\x15\x03\x03\x00\x02\x02\x28", 7)
                                       : says;
        (void)::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
        if (is_last) return;
      }
    });
    const auto start = Clock::now();
    EtcdBoard board({{{"127.0.0.1", listener.port}}, "p", "a", {}, {}});
    const Problem problem =
        test::problem_of<EnvironmentFault>([&] { (void)board.wait(Clock::now() + 10s, -1); });
    server.join();
    EXPECT_LT(Clock::now() - start, 2s);
    EXPECT_EQ(problem.code, "LS-3066");
    EXPECT_NE(problem.fix.find("--listen-client-urls"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
