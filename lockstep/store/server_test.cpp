#include "lockstep/store/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "lockstep/store/client.h"
#include "lockstep/store/frame.h"
#include "tests/support/process_limits.h"

namespace lockstep::store {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
Deadline soon() { return std::chrono::steady_clock::now() + 10s; }

/// A connection that says whatever it likes.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(connect_to("127.0.0.1", port, soon())) {}
  void say(const Bytes& bytes) { ASSERT_EQ(write_all(fd_.get(), bytes, soon()), IoEnd::done); }
  void say_hello() { say(FrameWriter(Query::validate).u32(kMagic).take()); }
  bool was_closed() {
    std::uint8_t byte = 0;
    return read_exact(fd_.get(), {&byte, 1}, soon()) == IoEnd::closed;
  }

 private:
  Fd fd_;
};

TEST(Store, ClientsShareKeys) {
  const Server server("127.0.0.1", 0);
  Client a("127.0.0.1", server.port(), 5s);
  Client b("127.0.0.1", server.port(), 5s);
  a.set("k", bytes_of("v"));
  EXPECT_EQ(b.get("k", 5s), bytes_of("v"));
  EXPECT_EQ(a.add("n", 3), 3);
  EXPECT_EQ(b.add("n", -5), -2);
  EXPECT_EQ(a.compare_set("c", {}, bytes_of("x")), bytes_of("x"));
  EXPECT_EQ(b.compare_set("c", bytes_of("q"), bytes_of("y")), bytes_of("x"));
  a.append("k", bytes_of("w"));
  EXPECT_EQ(a.get("k", 5s), bytes_of("vw"));
  EXPECT_TRUE(b.check({"k", "n"}));
  EXPECT_FALSE(b.check({"k", "none"}));
  EXPECT_EQ(a.num_keys(), 3);
  EXPECT_TRUE(a.delete_key("k"));
  EXPECT_FALSE(a.delete_key("k"));
}

TEST(Store, GetWaitsForAnotherRank) {
  const Server server("127.0.0.1", 0);
  Client reader("127.0.0.1", server.port(), 5s);
  std::thread writer([&] { Client("127.0.0.1", server.port(), 5s).set("late", bytes_of("here")); });
  EXPECT_EQ(reader.get("late", 10s), bytes_of("here"));
  writer.join();
}

TEST(Store, AWaitThatRunsOutNamesTheKeysAndLeavesTheConnectionUsable) {
  const Server server("127.0.0.1", 0);
  Client client("127.0.0.1", server.port(), 5s);
  try {
    client.wait({"rank/3", "rank/7"}, 20ms);
    FAIL() << "the wait ended";
  } catch (const PeerLost& error) {
    EXPECT_NE(error.problems()[0].what.find("'rank/3', 'rank/7'"), std::string::npos);
  }
  EXPECT_EQ(client.add("n", 1), 1);
}

TEST(Store, WorksOverUnixSockets) {
  const std::string path = testing::TempDir() + "lockstep-store-" + std::to_string(::getpid());
  for (const std::string& host : {"unix:" + path, "unix:@" + path}) {
    const Server server(host, 0);
    Client client(host, 0, 5s);
    EXPECT_EQ(client.add("n", 4), 4) << host;
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "the socket file outlived its server";
}

TEST(Store, ASocketFileIsForItsOwnerAndADeadOneIsReplaced) {
  const std::string path = testing::TempDir() + "lockstep-stale-" + std::to_string(::getpid());
  { auto dead = listen_on("unix:" + path, 0); }
  ASSERT_TRUE(std::filesystem::exists(path));
  const Server server("unix:" + path, 0);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_THROW(Server("unix:" + path, 0), EnvironmentFault) << "a live one was replaced";
}

TEST(Store, APortInUseNamesItsHolder) {
  const Server first("127.0.0.1", 0);
  try {
    const Server second("127.0.0.1", first.port());
    FAIL() << "one port, two servers";
  } catch (const EnvironmentFault& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-3001");
    EXPECT_NE(error.problems()[0].what.find("pid " + std::to_string(::getpid())), std::string::npos)
        << error.what();
  }
}

TEST(Store, BindsOnlyToTheNamedAddress) {
  const Server server("127.0.0.1", 0);
  EXPECT_NO_THROW(Server("127.0.0.2", server.port())) << "the port was taken on every address";
  EXPECT_THROW(Server("192.0.2.1", 0), EnvironmentFault) << "not an address of this host";
}

TEST(Store, NobodyThereIsSaidWithinTheDeadline) {
  const int free_port = listen_on("127.0.0.1", 0).port;
  EXPECT_THROW(Client("127.0.0.1", free_port, 30ms), EnvironmentFault);
}

TEST(Store, AServerThatGoesIsAFaultOfTheEnvironment) {
  auto server = std::make_unique<Server>("127.0.0.1", 0);
  Client client("127.0.0.1", server->port(), 5s);
  server.reset();
  EXPECT_THROW((void)client.num_keys(), EnvironmentFault);
  EXPECT_THROW((void)client.num_keys(), EnvironmentFault) << "a lost client must stay lost";
}

TEST(Store, HostileBytesCloseOnlyTheirOwnConnection) {
  const Server server("127.0.0.1", 0);
  Client good("127.0.0.1", server.port(), 5s);
  const Bytes before_hello[] = {
      bytes_of("GET / HTTP/1.1\r\n\r\n"),
      FrameWriter(Query::validate).u32(0xDEADBEEF).take(),
      FrameWriter(Query::set).text("/k").text("v").take(),
  };
  for (const auto& bytes : before_hello) {
    RawClient raw(server.port());
    raw.say(bytes);
    EXPECT_TRUE(raw.was_closed());
  }
  const Bytes after_hello[] = {
      Bytes{99},
      FrameWriter(Query::get).u64(~std::uint64_t{0}).take(),
      FrameWriter(Query::set).text("k").u64(kMaxValueBytes + 1).take(),
      FrameWriter(Query::wait).u64(std::uint64_t{1} << 40).take(),
      FrameWriter(Query::validate).u32(kMagic).take(),
  };
  for (const auto& bytes : after_hello) {
    RawClient raw(server.port());
    raw.say_hello();
    raw.say(bytes);
    EXPECT_TRUE(raw.was_closed());
  }
  EXPECT_EQ(good.num_keys(), 0);
}

TEST(Store, SlowAndSilentClientsHoldUpNobody) {
  const Server server("127.0.0.1", 0);
  RawClient silent(server.port());
  RawClient half(server.port());
  half.say_hello();
  half.say(FrameWriter(Query::set).text("/k").u64(1000).take());  // its value never comes
  Client good("127.0.0.1", server.port(), 5s);
  good.set("big", Bytes(kMaxKeyBytes * 16));
  RawClient deaf(server.port());  // asks for 256 MiB and reads none of it
  deaf.say_hello();
  for (int i = 0; i < 256; ++i) deaf.say(FrameWriter(Query::get).text("/big").take());
  EXPECT_EQ(good.add("n", 1), 1);
  EXPECT_EQ(good.get("big", 5s).size(), kMaxKeyBytes * 16);
}

TEST(Store, HundredsOfStrangersDoNotStopAJob) {
  const Server server("127.0.0.1", 0);
  Client good("127.0.0.1", server.port(), 5s);
  std::vector<RawClient> strangers;
  for (int i = 0; i < 300; ++i) strangers.emplace_back(server.port());
  EXPECT_EQ(good.add("n", 1), 1);
  Client late("127.0.0.1", server.port(), 5s);
  EXPECT_EQ(late.add("n", 1), 2);
}

/// A server that keeps half of so many connections, as one of a process with that limit would.
std::unique_ptr<Server> server_with_limit(rlim_t files) {
  const test::FileLimit limit(files);
  return std::make_unique<Server>("127.0.0.1", 0);
}

/// What hostile connection number i says: nothing, half a handshake, noise, a handshake and no
/// more, a value that never ends.
Bytes hostile_words(int i) {
  const Bytes hello = FrameWriter(Query::validate).u32(kMagic).take();
  if (i % 5 == 0) return {};
  if (i % 5 == 1) return {hello.begin(), hello.begin() + 3};
  if (i % 5 == 2) return Bytes(20'000, static_cast<std::uint8_t>(i));
  if (i % 5 == 3) return hello;
  Bytes endless = hello;
  const Bytes set = FrameWriter(Query::set).text("/k").u64(kMaxValueBytes).take();
  endless.insert(endless.end(), set.begin(), set.end());
  endless.resize(endless.size() + 1000);
  return endless;
}

TEST(Store, TenThousandHostileConnectionsDoNotStopAJob) {
  const auto server = server_with_limit(1000);
  const int port = server->port();
  Client good("127.0.0.1", port, 5s);
  std::deque<Fd> hostile;
  const std::size_t before_kib = test::resident_kib();
  auto slowest = 0ms;
  for (int i = 0; i < 10'000; ++i) {
    hostile.push_back(connect_to("127.0.0.1", port, soon()));
    const Bytes words = hostile_words(i);
    (void)write_all(hostile.back().get(), words, soon());
    if (hostile.size() > 2000) hostile.pop_front();
    if (i % 100 != 0) continue;
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(good.add("n", 1), i / 100 + 1);
    slowest = std::max(slowest, std::chrono::ceil<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - start));
  }
  Client late("127.0.0.1", port, 5s);
  EXPECT_EQ(late.add("n", 0), 100);
  EXPECT_LT(slowest, 1s);
  EXPECT_LT(test::resident_kib(), before_kib + test::growth_kib(64 * 1024));
}

TEST(Store, WhoSaidNoMoreThanTheMagicNumberMakesRoomForRanks) {
  const auto server = server_with_limit(400);
  const int port = server->port();
  Client good("127.0.0.1", port, 5s);
  ASSERT_EQ(good.add("n", 1), 1);
  std::vector<RawClient> idle;
  for (int i = 0; i < 180; ++i) {
    idle.emplace_back(port);
    idle.back().say_hello();
  }
  std::vector<std::unique_ptr<Client>> ranks;  // more than there is room for beside them
  for (int i = 0; i < 30; ++i) {
    ranks.push_back(std::make_unique<Client>("127.0.0.1", port, 5s));
    ASSERT_EQ(ranks.back()->add("n", 1), i + 2);
  }
  EXPECT_EQ(good.add("n", 0), 31);
}

TEST(Store, ManyRanksCountToTheSameNumber) {
  const Server server("127.0.0.1", 0);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 8; ++r) {
    ranks.emplace_back([&] {
      Client client("127.0.0.1", server.port(), 5s);
      for (int i = 0; i < 50; ++i) (void)client.add("n", 1);
      client.set("done/" + std::to_string(client.add("ids", 1)), {});
    });
  }
  Client client("127.0.0.1", server.port(), 5s);
  client.wait({"done/1", "done/2", "done/3", "done/4", "done/5", "done/6", "done/7", "done/8"},
              20s);
  EXPECT_EQ(client.add("n", 0), 400);
  for (auto& rank : ranks) rank.join();
}

}  // namespace
}  // namespace lockstep::store
