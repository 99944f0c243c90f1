// LibTorch's own store client against our server, and ours against LibTorch's server.
#include <c10/util/intrusive_ptr.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/store/client.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::chrono::milliseconds kDeadline{10'000};

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

c10::intrusive_ptr<c10d::TCPStore> torch_store(int port, bool is_server) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = kDeadline;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

TEST(StoreProtocol, LibTorchsClientReadsAndWritesOurServer) {
  const store::Server server("127.0.0.1", 0);
  const auto client = torch_store(server.port(), false);
  client->set("k", bytes_of("v"));
  EXPECT_EQ(client->get("k"), bytes_of("v"));
  EXPECT_EQ(client->add("n", 7), 7);
  EXPECT_EQ(client->add("n", -9), -2);
  EXPECT_EQ(client->compareSet("c", {}, bytes_of("x")), bytes_of("x"));
  EXPECT_EQ(client->compareSet("c", bytes_of("wrong"), bytes_of("y")), bytes_of("x"));
  EXPECT_TRUE(client->check({"k", "n"}));
  EXPECT_FALSE(client->check({"none"}));
  client->append("k", bytes_of("w"));
  EXPECT_EQ(client->get("k"), bytes_of("vw"));
  EXPECT_EQ(client->getNumKeys(), 3);
  EXPECT_EQ(client->listKeys().size(), 3U);
  EXPECT_TRUE(client->deleteKey("k"));
  EXPECT_FALSE(client->deleteKey("k"));
}

TEST(StoreProtocol, LibTorchsExtendedCallsWorkOnOurServer) {
  const store::Server server("127.0.0.1", 0);
  const auto client = torch_store(server.port(), false);
  client->multiSet({"a", "b"}, {bytes_of("1"), bytes_of("2")});
  EXPECT_EQ(client->multiGet({"b", "a"}), (std::vector<Bytes>{bytes_of("2"), bytes_of("1")}));
  client->queuePush("q", bytes_of("first"));
  client->queuePush("q", bytes_of("second"));
  EXPECT_EQ(client->queueLen("q"), 2);
  EXPECT_EQ(client->queuePop("q", true), bytes_of("first"));
  EXPECT_EQ(client->queuePop("q", false), bytes_of("second"));
  EXPECT_ANY_THROW(client->queuePop("q", false));
}

TEST(StoreProtocol, LibTorchsWaitEndsOrRunsOutOnOurServer) {
  const store::Server server("127.0.0.1", 0);
  const auto client = torch_store(server.port(), false);
  EXPECT_ANY_THROW(client->wait({"never"}, std::chrono::milliseconds(30)));
  std::thread writer([&] {
    store::Client ours("127.0.0.1", server.port(), kDeadline);
    ours.set("late", bytes_of("here"));
  });
  EXPECT_EQ(client->get("late"), bytes_of("here"));
  writer.join();
  EXPECT_EQ(client->add("n", 1), 1) << "the connection was out of step after a cancelled wait";
}

TEST(StoreProtocol, OurClientReadsAndWritesLibTorchsServer) {
  const auto server = torch_store(0, true);
  store::Client ours("127.0.0.1", server->getPort(), kDeadline);
  ours.set("from-us", bytes_of("hello"));
  EXPECT_EQ(server->get("from-us"), bytes_of("hello"));
  server->set("from-torch", bytes_of("hi"));
  EXPECT_EQ(ours.get("from-torch", kDeadline), bytes_of("hi"));
  EXPECT_EQ(ours.add("n", 2), 2);
  EXPECT_EQ(ours.compare_set("c", {}, bytes_of("x")), bytes_of("x"));
  EXPECT_TRUE(ours.check({"n"}));
  ours.append("from-us", bytes_of("!"));
  EXPECT_EQ(ours.get("from-us", kDeadline), bytes_of("hello!"));
  EXPECT_ANY_THROW(ours.wait({"never"}, std::chrono::milliseconds(30)));
  EXPECT_TRUE(ours.delete_key("n"));
  EXPECT_EQ(ours.num_keys(), server->getNumKeys());
}

TEST(StoreProtocol, OurClientsLongerRequestsWorkOnLibTorchsServer) {
  const auto server = torch_store(0, true);
  store::Client ours("127.0.0.1", server->getPort(), kDeadline);
  ours.multi_set({"a", "b"}, {bytes_of("1"), bytes_of("2")});
  EXPECT_EQ(server->get("b"), bytes_of("2"));
  server->set("c", bytes_of("3"));
  EXPECT_EQ(ours.multi_get({"c", "none", "a"}),
            (std::vector<Bytes>{bytes_of("3"), {}, bytes_of("1")}));
  auto keys = ours.list_keys();
  EXPECT_NE(std::find(keys.begin(), keys.end(), "b"), keys.end());
  ours.queue_push("q", bytes_of("first"));
  EXPECT_EQ(ours.queue_length("q"), 1);
  server->queuePush("q", bytes_of("second"));
  EXPECT_EQ(server->queueLen("q"), 2);
  EXPECT_EQ(server->queuePop("q", false), bytes_of("first"));
  EXPECT_EQ(ours.queue_pop("q"), bytes_of("second"));
  EXPECT_EQ(ours.queue_pop("q"), std::nullopt);
}

TEST(StoreProtocol, OurClientCountsAmongThoseThatLibTorchsServerWaitsFor) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(listen_on("127.0.0.1", 0).port);
  options.isServer = true;
  options.numWorkers = 2;  // the server itself is one
  options.timeout = kDeadline;
  std::thread ours([&] {
    store::Client client("127.0.0.1", options.port, kDeadline);
    client.count_in();
  });
  EXPECT_NO_THROW(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  ours.join();
}

}  // namespace
}  // namespace lockstep::comm
