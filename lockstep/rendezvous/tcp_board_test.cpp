#include "lockstep/rendezvous/tcp_board.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/rendezvous/records.h"
#include "lockstep/rendezvous/two_hosts_testing.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;
using Kind = BoardEvent::Kind;

int free_port() { return listen_on("127.0.0.1", 0).port; }

TcpBoardOptions options_of(const std::string& agent, int port,
                           const std::string& host = "127.0.0.1") {
  TcpBoardOptions options;
  options.endpoint = {host, port};
  options.agent = agent;
  options.key = job_key(Secret{1}, "job");
  static const test::ScratchFolder marks;
  options.mark_folder = marks.path();
  return options;
}

/// An agent with what it was told; acts when it is looked at.
struct Agent {
  explicit Agent(TcpBoardOptions options) : board(std::make_unique<TcpBoard>(std::move(options))) {}

  void look(std::chrono::milliseconds time = 0ms) {
    for (auto& event : board->wait(Clock::now() + time, -1)) told.push_back(std::move(event));
  }
  [[nodiscard]] const BoardEvent* find(Kind kind, const std::string& agent = {},
                                       const std::string& bytes = {}) const {
    const auto found = std::find_if(told.begin(), told.end(), [&](const auto& e) {
      return e.kind == kind && (agent.empty() || e.agent == agent) &&
             (bytes.empty() || e.bytes == bytes);
    });
    return found == told.end() ? nullptr : &*found;
  }

  std::unique_ptr<TcpBoard> board;
  std::vector<BoardEvent> told{};
};

/// Lets the agents act in turns until the condition holds, for ten seconds at most.
bool until(const std::vector<Agent*>& agents, const std::function<bool()>& condition) {
  const auto end = Clock::now() + 10s;
  while (Clock::now() < end) {
    if (condition()) return true;
    for (Agent* agent : agents) agent->look(1ms);
  }
  return false;
}

/// The problem that wait() ends with within ten seconds.
Problem problem_of_waiting(TcpBoard& board) {
  return test::problem_of<EnvironmentFault>([&] { (void)board.wait(Clock::now() + 10s, -1); });
}

TEST(TcpBoard, TheFirstToBindLeadsAndTheOthersFollow) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  a.look();
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::not_leading, "a") != nullptr; }));
  EXPECT_NE(a.find(Kind::leading), nullptr);
  const auto before = Clock::now();
  b.board->publish("b1");
  const auto after = Clock::now();
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::heard) != nullptr; }));
  EXPECT_NE(a.find(Kind::record, "b", "b1"), nullptr);
  EXPECT_GE(b.find(Kind::heard)->at, before);
  EXPECT_LE(b.find(Kind::heard)->at, after);
  a.board->announce("state");
  b.board->announce("not mine to say");
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::state) != nullptr; }));
  EXPECT_EQ(b.find(Kind::state)->bytes, "state");
  EXPECT_NE(a.find(Kind::state, {}, "state"), nullptr) << "the leader is told, too";
}

TEST(TcpBoard, WhatWasPublishedBeforeThereIsALeaderIsNotLost) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  a.board->publish("a1");
  b.board->publish("b1");
  ASSERT_TRUE(until({&a, &b}, [&] {
    return a.find(Kind::record, "b", "b1") != nullptr &&
           a.find(Kind::record, "a", "a1") != nullptr && a.find(Kind::heard) != nullptr &&
           b.find(Kind::heard) != nullptr;
  }));
}

TEST(TcpBoard, WhoLeavesIsGoneAtOnce) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  a.look();
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::not_leading) != nullptr; }));
  const auto start = Clock::now();
  b.board.reset();
  ASSERT_TRUE(until({&a}, [&] { return a.find(Kind::gone, "b") != nullptr; }));
  EXPECT_LT(Clock::now() - start, 500ms);
}

TEST(TcpBoard, AnotherAgentOfTheLeadersHostTakesOverAndTheOthersStay) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  Agent c(options_of("c", port));
  a.look();
  a.board->announce("state 7");
  ASSERT_TRUE(until({&a, &b, &c}, [&] {
    return b.find(Kind::state, {}, "state 7") != nullptr && c.find(Kind::state) != nullptr;
  }));
  std::thread ending([&] { a.board.reset(); });
  const bool taken_over = until({&b, &c}, [&] {
    return (b.find(Kind::leading) != nullptr && c.find(Kind::not_leading, "b") != nullptr) ||
           (c.find(Kind::leading) != nullptr && b.find(Kind::not_leading, "c") != nullptr);
  });
  ending.join();
  ASSERT_TRUE(taken_over);
  Agent& leader = b.find(Kind::leading) != nullptr ? b : c;
  Agent& other = &leader == &b ? c : b;
  EXPECT_EQ(leader.find(Kind::leading)->bytes, "state 7");
  other.board->publish("still here");
  ASSERT_TRUE(until({&b, &c}, [&] { return leader.find(Kind::record, {}, "still here"); }));
}

std::string state_of_round(int generation) {
  JobState state;
  state.run_id = "job";
  state.generation = generation;
  return to_bytes(state);
}

TEST(TcpBoard, NobodyWhoKnowsOfARoundFollowsTheLeaderOfALaterStart) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  a.look();
  a.board->announce(state_of_round(1));
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::state) != nullptr; }));
  std::thread ending([&] { a.board.reset(); });  // waits until b has seen the end
  Agent later(options_of("later", port));
  ending.join();
  ASSERT_TRUE(until({&later}, [&] { return later.find(Kind::leading) != nullptr; }));
  std::thread serving(
      [&] { (void)until({&later}, [&] { return later.find(Kind::gone) != nullptr; }); });
  const Problem problem = problem_of_waiting(*b.board);
  b.board.reset();
  serving.join();
  EXPECT_EQ(problem.code, "LS-3064");
  EXPECT_NE(problem.what.find("another start of the job"), std::string::npos) << problem.what;
}

TEST(TcpBoard, BeforeARoundAnAgentFollowsWhoeverLeads) {
  const int port = free_port();
  Agent a(options_of("a", port));
  Agent b(options_of("b", port));
  a.look();
  a.board->announce(state_of_round(0));
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::state) != nullptr; }));
  std::thread ending([&] { a.board.reset(); });
  Agent later(options_of("later", port));
  ASSERT_TRUE(until({&later, &b}, [&] {
    return b.find(Kind::not_leading, "later") != nullptr ||
           later.find(Kind::not_leading, "b") != nullptr;
  }));
  ending.join();
}

TEST(TcpBoard, WhoTakesThePlaceOfALeaderThatWasKilledLearnsThatThereWasOne) {
  const int port = free_port();
  const auto led_before = [&] {
    Agent next(options_of("next", port));
    EXPECT_TRUE(until({&next}, [&] { return next.find(Kind::leading) != nullptr; }));
    const Deadline at = next.find(Kind::leading)->at;
    next.board->conclude();
    return at;
  };
  EXPECT_LT(led_before(), Clock::now() - 1min) << "nobody led before";
  std::optional<Agent> killed(std::in_place, options_of("killed", port));
  killed->look();
  const auto last_look = Clock::now();
  killed->look();
  killed.reset();
  const Deadline until = led_before();
  EXPECT_GE(until, last_look);
  EXPECT_LE(until, Clock::now() + 1s);
  EXPECT_EQ(led_before(), until) << "the end of a job says nothing of the one before it";
}

TEST(TcpBoard, ALeaderThatAnswersNothingIsLostAfterAWhile) {
  const int port = free_port();
  Agent a(options_of("a", port));
  auto options = options_of("b", port);
  options.times.silence = 50ms;
  options.times.lost = 300ms;
  Agent b(options);
  a.look();
  ASSERT_TRUE(until({&a, &b}, [&] { return b.find(Kind::not_leading) != nullptr; }));
  b.board->publish("anybody?");
  const Problem problem = problem_of_waiting(*b.board);  // a does not act any more
  EXPECT_EQ(problem.code, "LS-3064");
  EXPECT_NE(problem.fix.find("etcd"), std::string::npos);
}

TEST(TcpBoard, AnotherSecretOrJobIsSaidWithinASecond) {
  const int port = free_port();
  Agent a(options_of("a", port));
  a.look();
  std::atomic<bool> done{false};
  std::thread serving([&] {
    while (!done) a.look(10ms);
  });
  auto options = options_of("b", port);
  options.key = job_key(Secret{2}, "job");
  const auto start = Clock::now();
  TcpBoard other_secret(options);
  EXPECT_EQ(problem_of_waiting(other_secret).code, "LS-3062");
  options.key = job_key(Secret{1}, "another job");
  TcpBoard other_job(options);
  const Problem problem = problem_of_waiting(other_job);
  EXPECT_LT(Clock::now() - start, 1s);
  done = true;
  serving.join();
  EXPECT_EQ(problem.code, "LS-3063");
  EXPECT_NE(problem.what.find("--rdzv-id"), std::string::npos);
}

/// A program that is no agent and listens on a port, until it is destroyed.
class OtherProgram {
 public:
  OtherProgram() {
    Listener listener = listen_on("127.0.0.1", 0);
    port_ = listener.port;
    ::fcntl(listener.fd.get(), F_SETFD, 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execlp("sleep", "sleep", "60", nullptr);
      ::_exit(127);
    }
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;
  ~OtherProgram() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  int port_ = 0;
  pid_t pid_ = -1;
};

TEST(TcpBoard, APortOfAnotherProgramIsToldWithinASecondWithItsName) {
  const OtherProgram other;
  TcpBoard board(options_of("a", other.port()));
  const auto start = Clock::now();
  const Problem problem = problem_of_waiting(board);
  EXPECT_LT(Clock::now() - start, 1s);
  EXPECT_EQ(problem.code, "LS-3001");
  EXPECT_NE(problem.what.find("pid " + std::to_string(other.pid()) + " (sleep 60)"),
            std::string::npos)
      << problem.what;
}

TEST(TcpBoard, AProgramThatAnswersSomethingElseIsNoAgent) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::thread server([&] {
    pollfd ready{listener.fd.get(), POLLIN, 0};
    ::poll(&ready, 1, 5000);
    const Fd client(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)::send(client.get(), "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
  });
  TcpBoard board(options_of("a", listener.port));
  const Problem problem = problem_of_waiting(board);
  server.join();
  EXPECT_EQ(problem.code, "LS-3001");
  EXPECT_NE(problem.what.find("no agent of lockstep"), std::string::npos) << problem.what;
}

TEST(TcpBoard, AnAddressThatStandsForAllIsRefused) {
  for (const char* host : {"0.0.0.0", "::"}) {
    TcpBoard board(options_of("a", free_port(), host));
    const Problem problem = problem_of_waiting(board);
    EXPECT_EQ(problem.code, "LS-3002") << host;
  }
}

TEST(TcpBoard, WaitEndsWhenItIsWoken) {
  Agent a(options_of("a", free_port()));
  a.look();
  const Fd wake(::eventfd(1, EFD_CLOEXEC));
  const auto start = Clock::now();
  EXPECT_TRUE(a.board->wait(start + 10s, wake.get()).empty());
  EXPECT_LT(Clock::now() - start, 5s);
}

// Two hosts: what a child process finds comes back as text.

std::string expect(bool holds, const std::string& what) { return holds ? "" : what + "\n"; }

/// "LS-3003 after 0.4 s: no route ..." of a wait that fails.
std::string failure_text(TcpBoardOptions options) {
  const auto start = Clock::now();
  try {
    TcpBoard board(std::move(options));
    while (Clock::now() < start + 30s) (void)board.wait(start + 30s, -1);
  } catch (const EnvironmentFault& fault) {
    return fault.problems()[0].code + ": " + fault.problems()[0].what;
  }
  return "no failure";
}

TEST(TcpBoardOnTwoHosts, TheHostThatHasTheAddressLeadsWhoeverComesFirst) {
  std::promise<void> client_waits;
  std::atomic<bool> done{false};
  const auto host0 = [&] {
    client_waits.get_future().wait();
    Agent leader(options_of("leader", 29400, "10.77.0.1"));
    (void)until({&leader}, [&] { return done.load(); });
    return expect(leader.find(Kind::leading), "host 0 did not lead") +
           expect(leader.find(Kind::record, "client", "here"), "no record came");
  };
  const auto host1 = [&] {
    auto options = options_of("client", 29400, "10.77.0.1");
    options.times.join = 20s;
    Agent client(options);
    client.board->publish("here");
    client.look(100ms);
    client_waits.set_value();
    const auto start = Clock::now();
    const bool joined = until({&client}, [&] { return client.find(Kind::heard); });
    done = true;
    return expect(joined && Clock::now() - start < 2s, "not joined in 2 s") +
           expect(!client.find(Kind::leading), "host 1 led");
  };
  EXPECT_EQ(TwoHosts::run(host0, host1), "");
}

TEST(TcpBoardOnTwoHosts, WhyAnAddressCannotBeReachedIsToldApart) {
  const auto host1 = [] {
    auto options = options_of("client", 1234, "10.77.0.1");
    options.times.join = 300ms;
    options.times.hopeless = 1100ms;
    std::string text = failure_text(options) + "\n";  // its host answers: nobody listens
    ip("neighbour add 10.77.0.9 lladdr 02:00:00:00:00:09 dev cable");
    options.times.join = 20s;
    for (const char* host : {"10.77.0.9", "192.0.2.1", "no-such-host.invalid"}) {
      options.endpoint.host = host;
      text += failure_text(options) + "\n";
    }
    ip("route add blackhole 192.0.2.1");
    options.endpoint.host = "192.0.2.1";
    return text + failure_text(options);
  };
  const std::string text = TwoHosts::run([] { return ""; }, host1);
  EXPECT_NE(text.find("LS-3003: nobody listens there: Connection refused for"), std::string::npos);
  EXPECT_NE(text.find("LS-3003: no answer from 10.77.0.9:1234 (SYN sent 2 times, no reply): "
                      "firewall or wrong address"),
            std::string::npos);
  EXPECT_NE(text.find("LS-3003: no route to 192.0.2.1:1234 (Network is unreachable)"),
            std::string::npos);
  EXPECT_NE(text.find("LS-3002: the host name cannot be resolved"), std::string::npos);
  EXPECT_NE(text.find("LS-3003: no answer from 192.0.2.1:1234 (a blackhole route"),
            std::string::npos);
  if (HasFailure()) std::printf("%s\n", text.c_str());
}

TEST(TcpBoardOnTwoHosts, ACutCableIsNoticedOnBothSides) {
  std::promise<void> cut;
  std::atomic<bool> done{false};
  const auto host0 = [&] {
    Agent leader(options_of("leader", 29400, "10.77.0.1"));
    const bool came = until({&leader}, [&] { return leader.find(Kind::record, "client"); });
    ip("link set cable down");
    cut.set_value();
    while (!done) leader.look(10ms);
    return expect(came, "no record came");
  };
  const auto host1 = [&] {
    auto options = options_of("client", 29400, "10.77.0.1");
    options.times.silence = 500ms;
    options.times.lost = 2s;
    Agent client(options);
    client.board->publish("1");
    const bool joined = until({&client}, [&] { return client.find(Kind::heard); });
    cut.get_future().wait();
    const auto start = Clock::now();
    client.board->publish("2");
    std::string text = expect(joined, "not joined");
    try {
      while (Clock::now() < start + 10s) client.look(100ms);
      text += "the loss was not noticed";
    } catch (const EnvironmentFault& fault) {
      text += expect(fault.problems()[0].code == "LS-3064", fault.what());
      text += expect(Clock::now() - start < 4s, "noticed late");
    }
    done = true;
    return text;
  };
  EXPECT_EQ(TwoHosts::run(host0, host1), "");
}

}  // namespace
}  // namespace lockstep::rendezvous
