#include "lockstep/comm/store_adapter.h"

#include <gtest/gtest.h>

#include <future>

#include "lockstep/base/error.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST(StoreAdapter, IsAC10dStore) {
  const store::Server server("127.0.0.1", 0);
  const c10::intrusive_ptr<c10d::Store> store =
      c10::make_intrusive<StoreAdapter>("127.0.0.1", server.port(), seconds(10));
  store->set("a", bytes("1"));
  store->append("a", bytes("2"));
  EXPECT_EQ(store->get_to_str("a"), "12");
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_EQ(store->add("n", -2), 3);
  EXPECT_EQ(store->compareSet("c", "", "mine"), "mine");
  EXPECT_EQ(store->compareSet("c", "", "yours"), "mine");
  EXPECT_TRUE(store->check({"a", "n"}));
  EXPECT_FALSE(store->check({"a", "missing"}));
  EXPECT_GE(store->getNumKeys(), 3);
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(store->deleteKey("a"));
}

TEST(StoreAdapter, ACloneSetsWhatTheOriginalWaitsFor) {
  const store::Server server("127.0.0.1", 0);
  const auto store = c10::make_intrusive<StoreAdapter>("127.0.0.1", server.port(), seconds(10));
  const auto clone = store->clone();
  auto value = std::async(std::launch::async, [&] {
    store->wait({"later"});
    return store->get("later");
  });
  clone->set("later", bytes("x"));
  EXPECT_EQ(value.get(), bytes("x"));
}

TEST(StoreAdapter, AWaitEndsAtItsDeadline) {
  const store::Server server("127.0.0.1", 0);
  StoreAdapter store("127.0.0.1", server.port(), milliseconds(50));
  EXPECT_THROW(store.wait({"never"}, milliseconds(20)), PeerLost);
  EXPECT_THROW((void)store.get("never"), PeerLost);
  store.set("still", bytes("works"));
  EXPECT_EQ(store.get("still"), bytes("works"));
}

}  // namespace
}  // namespace lockstep::comm
