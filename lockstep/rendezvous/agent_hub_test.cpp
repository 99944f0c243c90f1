#include "lockstep/rendezvous/agent_hub.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "lockstep/base/socket_address.h"
#include "tests/support/process_limits.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;
using Kind = BoardEvent::Kind;

JobKey key_of(std::uint8_t first) { return job_key(Secret{first}, "job"); }

/// A hub, what it told, and callers that talk with it in turns.
class Hub {
 public:
  explicit Hub(HubLimits limits = {}) {
    auto listener = listen_on("127.0.0.1", 0);
    port_ = listener.port;
    hub_.emplace(
        std::move(listener), key_of(1), HubIdentity{"leader", std::string(16, 'l')},
        [this](const std::string& text) { notes_.push_back(text); }, limits);
  }

  AgentHub& hub() { return *hub_; }
  void destroy() { hub_.reset(); }
  [[nodiscard]] int port() const { return port_; }
  std::vector<BoardEvent>& events() { return events_; }
  std::vector<std::string>& notes() { return notes_; }
  [[nodiscard]] Fd connect() const { return connect_to("127.0.0.1", port_, Clock::now() + 5s); }

  void serve() { hub_->serve(events_); }
  /// Serves until the condition holds, for ten seconds at most.
  [[nodiscard]] bool serve_until(const std::function<bool()>& condition) {
    const auto end = Clock::now() + 10s;
    while (Clock::now() < end) {
      if (condition()) return true;
      serve();
    }
    return false;
  }
  [[nodiscard]] std::size_t count(Kind kind) const {
    return static_cast<std::size_t>(std::count_if(events_.begin(), events_.end(),
                                                  [&](const auto& e) { return e.kind == kind; }));
  }
  [[nodiscard]] bool noted(const std::string& part) const {
    return std::any_of(notes_.begin(), notes_.end(),
                       [&](const auto& note) { return note.find(part) != std::string::npos; });
  }

 private:
  int port_ = 0;
  std::vector<BoardEvent> events_;
  std::vector<std::string> notes_;
  std::optional<AgentHub> hub_;
};

/// An agent's side of a connection to a hub.
class Caller {
 public:
  explicit Caller(Hub& hub, const JobKey& key = key_of(1))
      : hub_(hub), link_(hub.connect(), Side::caller, key) {}

  ControlLink& link() { return link_; }
  [[nodiscard]] bool prove() {
    return hub_.serve_until([&] {
      link_.receive();
      return link_.is_proved() || link_.end() != ControlLink::End::open;
    }) && link_.is_proved();
  }
  [[nodiscard]] bool join(const std::string& agent) {
    if (!prove()) return false;
    link_.send(FrameKind::join, agent);
    return next() == Frame{FrameKind::welcome, std::string(16, 'l') + "leader"};
  }
  /// The next frame, or an empty `leave` when the connection ended before.
  [[nodiscard]] Frame next() {
    std::optional<Frame> frame;
    const bool came = hub_.serve_until([&] {
      link_.flush();
      link_.receive();
      frame = link_.next();
      return frame.has_value() || link_.end() != ControlLink::End::open;
    });
    return came && frame.has_value() ? *frame : Frame{FrameKind::leave, {}};
  }
  [[nodiscard]] bool is_cut_off() {
    return hub_.serve_until([&] {
      link_.receive();
      return link_.end() != ControlLink::End::open;
    });
  }

 private:
  Hub& hub_;
  ControlLink link_;
};

TEST(AgentHub, TakesRecordsAnswersThemAndTellsTheState) {
  Hub hub;
  Caller agent(hub);
  ASSERT_TRUE(agent.join("a"));
  agent.link().send(FrameKind::record, "12345678record");
  EXPECT_EQ(agent.next(), (Frame{FrameKind::heard, "12345678"}));
  ASSERT_EQ(hub.events().size(), 1U);
  EXPECT_EQ(hub.events()[0].agent, "a");
  EXPECT_EQ(hub.events()[0].bytes, "record");
  hub.hub().announce("state 1");
  EXPECT_EQ(agent.next(), (Frame{FrameKind::state, "state 1"}));
  Caller late(hub);
  ASSERT_TRUE(late.join("b"));
  EXPECT_EQ(late.next(), (Frame{FrameKind::state, "state 1"}));
}

TEST(AgentHub, AStateIsToldBeforeTheAnswerThatFollowsIt) {
  Hub hub;
  Caller agent(hub);
  ASSERT_TRUE(agent.join("a"));
  agent.link().send(FrameKind::record, "12345678record");
  hub.hub().announce("state 1");
  EXPECT_EQ(agent.next(), (Frame{FrameKind::state, "state 1"}));
  EXPECT_EQ(agent.next(), (Frame{FrameKind::heard, "12345678"}));
}

TEST(AgentHub, WhoLeavesIsGoneAtOnceAndWhoseConnectionBreaksAfterAWhile) {
  HubLimits limits;
  limits.grace = 300ms;
  Hub hub(limits);
  std::optional<Caller> stays(std::in_place, hub);
  std::optional<Caller> leaves(std::in_place, hub);
  ASSERT_TRUE(stays->join("stays"));
  ASSERT_TRUE(leaves->join("leaves"));
  leaves->link().send(FrameKind::leave, {});
  ASSERT_TRUE(hub.serve_until([&] { return hub.count(Kind::gone) == 1; }));
  EXPECT_EQ(hub.events().back().agent, "leaves");

  stays.reset();
  stays.emplace(hub);
  ASSERT_TRUE(stays->join("stays")) << "an agent that lost its connection may come back";
  const auto broken = Clock::now();
  stays.reset();
  ASSERT_TRUE(hub.serve_until([&] { return hub.count(Kind::gone) == 2; }));
  EXPECT_EQ(hub.events().back().agent, "stays");
  EXPECT_GE(Clock::now() - broken, 300ms);
}

TEST(AgentHub, ANewConnectionOfAnAgentTakesThePlaceOfItsOldOne) {
  Hub hub;
  Caller old(hub);
  ASSERT_TRUE(old.join("a"));
  Caller fresh(hub);
  ASSERT_TRUE(fresh.join("a"));
  EXPECT_TRUE(old.is_cut_off());
  fresh.link().send(FrameKind::record, "12345678r");
  EXPECT_EQ(fresh.next().kind, FrameKind::heard);
  EXPECT_EQ(hub.count(Kind::gone), 0U);
}

TEST(AgentHub, AWrongSecretIsRefusedAtOnceOnBothSidesWithTheAddress) {
  Hub hub;
  const auto start = Clock::now();
  Caller agent(hub, key_of(2));
  EXPECT_FALSE(agent.prove());
  EXPECT_EQ(agent.link().end(), ControlLink::End::other_secret);
  ASSERT_TRUE(hub.serve_until([&] { return !hub.notes().empty(); }));
  EXPECT_LT(Clock::now() - start, 1s);
  EXPECT_TRUE(hub.noted("127.0.0.1:")) << hub.notes()[0];
  EXPECT_TRUE(hub.noted("another job secret")) << hub.notes()[0];
  EXPECT_TRUE(hub.noted("same secret file")) << hub.notes()[0];
  EXPECT_EQ(hub.hub().connection_count(), 0U);
}

/// Sends raw bytes; true when the hub closes the connection before any answer of a job.
bool is_refused(Hub& hub, const std::string& said) {
  const Fd fd = hub.connect();
  (void)::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL);
  return hub.serve_until([&] {
    char byte = 0;
    const ssize_t n = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
  });
}

TEST(AgentHub, StrangersAreRefusedAtTheirFirstBytes) {
  Hub hub;
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0') + "\xce\xf7\x85\x3c",
        std::string(100'000, 'x')}) {
    EXPECT_TRUE(is_refused(hub, said));
  }
  EXPECT_TRUE(hub.noted("no agent of lockstep"));
}

TEST(AgentHub, FramesThatDoNotBelongThereEndTheirConnectionOnly) {
  Hub hub;
  Caller good(hub);
  ASSERT_TRUE(good.join("good"));
  const std::vector<Frame> wrong{{FrameKind::record, "12345678too early"},
                                 {FrameKind::welcome, "no leader"},
                                 {FrameKind::join, ""},
                                 {FrameKind::join, std::string(300, 'x')}};
  for (const Frame& frame : wrong) {
    Caller bad(hub);
    ASSERT_TRUE(bad.prove());
    bad.link().send(frame.kind, frame.payload);
    EXPECT_TRUE(bad.is_cut_off());
  }
  good.link().send(FrameKind::record, "12345678r");
  EXPECT_EQ(good.next().kind, FrameKind::heard);
}

TEST(AgentHub, ABadFrameOfAnAgentIsRefused) {
  Hub hub;
  Caller agent(hub);
  ASSERT_TRUE(agent.join("a"));
  const std::string huge("LSR1\x01\x00\x04\x03\x00\x00\x00\x04", 12);
  ASSERT_GT(::send(agent.link().fd(), (huge + std::string(12, '\0')).data(), 24, 0), 0);
  EXPECT_TRUE(agent.is_cut_off());
  EXPECT_TRUE(hub.noted("67108864 bytes"));
}

TEST(AgentHub, WhoDoesNotProveItselfInTimeIsCutOff) {
  HubLimits limits;
  limits.handshake = 50ms;
  Hub hub(limits);
  const Fd silent = hub.connect();
  const Fd slow = hub.connect();
  (void)::send(slow.get(), "LSR1", 4, 0);
  ASSERT_TRUE(hub.serve_until([&] { return hub.hub().connection_count() == 2; }));
  EXPECT_LE(hub.hub().wake_at(), Clock::now() + 50ms);
  ASSERT_TRUE(hub.serve_until([&] { return hub.hub().connection_count() == 0; }));
  EXPECT_TRUE(hub.noted("did not prove in time"));
}

TEST(AgentHub, AnAgentThatReadsSlowlyGetsTheNewestStateOnly) {
  Hub hub;
  Caller agent(hub);
  ASSERT_TRUE(agent.join("slow"));
  std::string newest;
  for (int i = 0; i < 40; ++i) {
    newest = std::string(1 << 20, static_cast<char>('a' + i % 26)) + std::to_string(i);
    hub.hub().announce(newest);
  }
  int states = 0;
  for (Frame frame = agent.next(); frame.payload != newest; frame = agent.next()) {
    ASSERT_EQ(frame.kind, FrameKind::state);
    ++states;
  }
  EXPECT_LT(states, 39) << "every state was kept for it";
}

TEST(AgentHub, WhatWasAnnouncedArrivesBeforeTheHubGoes) {
  Hub hub;
  std::optional<Caller> agent(std::in_place, hub);
  ASSERT_TRUE(agent->join("a"));
  Fd socket(::dup(agent->link().fd()));
  agent->link().send(FrameKind::record, "12345678never read");
  hub.hub().announce(std::string(1 << 20, 's'));
  const auto start = Clock::now();
  std::size_t got = 0;
  std::thread reader([&] {
    std::vector<std::uint8_t> byte(1);
    while (read_exact(socket.get(), byte, Clock::now() + 5s) == IoEnd::done) ++got;
    agent.reset();  // as an agent that sees the end
    socket.reset();
  });
  hub.destroy();
  reader.join();
  EXPECT_GT(got, 1U << 20U);
  EXPECT_LT(Clock::now() - start, 5s);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// What hostile connection number i sends; "" = nothing at all.
std::string hostile_words(int i, std::mt19937& random) {
  if (i % 4 == 0) return {};
  if (i % 4 == 1) return std::string("LSR1\x01\x00\x01", static_cast<std::size_t>(i % 7) + 1);
  std::string bytes(i % 4 == 2 ? 200 : 20'000, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
  return bytes;
}

TEST(AgentHub, TenThousandHostileConnectionsDoNotStopAJob) {
  HubLimits limits;
  limits.connections = 1000;
  Hub hub(limits);
  Caller agent(hub);
  ASSERT_TRUE(agent.join("good"));
  std::mt19937 random(7);
  std::deque<Fd> hostile;
  const std::size_t before_kib = test::resident_kib();
  auto slowest = 0ms;
  for (int i = 0; i < 10'000; ++i) {
    hostile.push_back(hub.connect());
    const std::string said = hostile_words(i, random);
    if (!said.empty()) (void)::send(hostile.back().get(), said.data(), said.size(), MSG_NOSIGNAL);
    if (hostile.size() > 2000) hostile.pop_front();
    hub.serve();
    ASSERT_LE(hub.hub().connection_count(), 1000U);
    if (i % 100 != 0) continue;
    const auto start = Clock::now();
    agent.link().send(FrameKind::record, "12345678alive");
    ASSERT_EQ(agent.next(), (Frame{FrameKind::heard, "12345678"})) << "after " << i;
    slowest = std::max(slowest, std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - start));
  }
  Caller late(hub);
  EXPECT_TRUE(late.join("late")) << "nobody can join any more";
  EXPECT_LT(slowest, 500ms);
  EXPECT_LT(test::resident_kib(), before_kib + test::growth_kib(16 * 1024));
  EXPECT_LT(hub.notes().size(), 200U) << "the log was flooded";
  hostile.clear();
  ASSERT_TRUE(hub.serve_until([&] { return hub.hub().connection_count() == 2; }));
}

TEST(AgentHub, WhenDescriptorsRunOutStrangersGoAndAgentsStay) {
  HubLimits limits;
  limits.connections = 10'000;
  Hub hub(limits);
  Caller agent(hub);
  ASSERT_TRUE(agent.join("good"));
  const test::FileLimit limit(open_descriptors() + 40);
  std::vector<Fd> hostile;
  for (int i = 0; i < 38; ++i) {  // they need descriptors here, too, and take nearly all
    SocketAddress address = resolve("127.0.0.1", hub.port())[0];
    Fd fd = stream_socket(address);
    if (!fd) break;
    (void)::connect(fd.get(), address.get(), address.length);
    hostile.push_back(std::move(fd));
  }
  for (int i = 0; i < 100; ++i) hub.serve();
  agent.link().send(FrameKind::record, "12345678alive");
  EXPECT_EQ(agent.next(), (Frame{FrameKind::heard, "12345678"}));
  hostile.clear();
  Caller late(hub);
  EXPECT_TRUE(late.join("late"));
}

}  // namespace
}  // namespace lockstep::rendezvous
