#include "lockstep/store/table.h"

#include <gtest/gtest.h>

#include <string_view>

namespace lockstep::store {
namespace {

constexpr ConnectionId kAnn{1};
constexpr ConnectionId kBob{2};

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

class TableTest : public testing::Test {
 protected:
  /// All replies of one request as "connection:bytes", integers and lengths included.
  std::vector<std::pair<ConnectionId, Bytes>> ask(ConnectionId from, Query query,
                                                  std::vector<std::string> keys,
                                                  std::vector<Bytes> values = {},
                                                  std::uint64_t number = 0) {
    const auto outcome = table_.apply(from, {query, std::move(keys), std::move(values), number});
    refusal_ = outcome.refusal;
    std::vector<std::pair<ConnectionId, Bytes>> replies;
    for (const auto& reply : outcome.replies) replies.emplace_back(reply.to, reply.bytes);
    return replies;
  }
  std::string value(const std::string& key) {
    const auto replies = ask(kAnn, Query::get, {key});
    return {replies.at(0).second.begin() + 8, replies.at(0).second.end()};
  }
  using Replies = std::vector<std::pair<ConnectionId, Bytes>>;

  Table table_;
  std::string refusal_;
};

TEST_F(TableTest, AMissingKeyReadsAsEmpty) {
  EXPECT_EQ(ask(kAnn, Query::get, {"k"}), (Replies{{kAnn, Bytes(8, 0)}}));
}

TEST_F(TableTest, AWaitEndsWhenTheLastKeyComes) {
  EXPECT_TRUE(ask(kAnn, Query::wait, {"a", "b"}).empty());
  EXPECT_TRUE(ask(kBob, Query::set, {"a"}, {{1}}).empty());
  EXPECT_EQ(ask(kBob, Query::set, {"b"}, {{1}}), (Replies{{kAnn, {kStopWaiting}}}));
  EXPECT_EQ(ask(kBob, Query::wait, {"a", "b"}), (Replies{{kBob, {kStopWaiting}}}));
}

TEST_F(TableTest, EveryKindOfWriteEndsAWait) {
  const auto waits = [&](const std::string& key) {
    EXPECT_TRUE(ask(kAnn, Query::wait, {key}).empty());
  };
  waits("set");
  EXPECT_EQ(ask(kBob, Query::set, {"set"}, {{}}).size(), 1U);
  waits("cas");
  EXPECT_EQ(ask(kBob, Query::compare_set, {"cas"}, {{}, {1}}).size(), 2U);
  waits("add");
  EXPECT_EQ(ask(kBob, Query::add, {"add"}, {}, 1).size(), 2U);
  waits("append");
  EXPECT_EQ(ask(kBob, Query::append, {"append"}, {{1}}).size(), 1U);
  waits("many");
  EXPECT_EQ(ask(kBob, Query::multi_set, {"x", "many"}, {{1}, {2}}).size(), 1U);
  waits("queue");
  EXPECT_EQ(ask(kBob, Query::queue_push, {"queue"}, {{1}}).size(), 1U);
}

TEST_F(TableTest, OnePushWakesOneTaker) {
  EXPECT_TRUE(ask(kAnn, Query::wait, {"q"}).empty());
  EXPECT_TRUE(ask(kBob, Query::wait, {"q"}).empty());
  EXPECT_EQ(ask(kAnn, Query::queue_push, {"q"}, {{1}}), (Replies{{kAnn, {kStopWaiting}}}));
  EXPECT_EQ(ask(kAnn, Query::queue_push, {"q"}, {{2}}), (Replies{{kBob, {kStopWaiting}}}));
}

TEST_F(TableTest, QueuesAreFirstInFirstOutAndNotKeys) {
  ask(kAnn, Query::queue_push, {"q"}, {bytes_of("one")});
  ask(kAnn, Query::queue_push, {"q"}, {bytes_of("two")});
  EXPECT_EQ(ask(kAnn, Query::queue_len, {"q"}), (Replies{{kAnn, {2, 0, 0, 0, 0, 0, 0, 0}}}));
  EXPECT_EQ(ask(kAnn, Query::num_keys, {}), (Replies{{kAnn, Bytes(8, 0)}}));
  const Bytes first = FrameWriter().u64(2).text("one").take();
  EXPECT_EQ(ask(kAnn, Query::queue_pop, {"q"}), (Replies{{kAnn, first}}));
  const Bytes second = FrameWriter().u64(1).text("two").take();
  EXPECT_EQ(ask(kAnn, Query::queue_pop, {"q"}), (Replies{{kAnn, second}}));
  EXPECT_EQ(ask(kAnn, Query::queue_pop, {"q"}), (Replies{{kAnn, Bytes(8, 0)}}));
  EXPECT_EQ(table_.held_bytes(), 0U);
}

TEST_F(TableTest, CountersAreDecimalDigits) {
  EXPECT_EQ(ask(kAnn, Query::add, {"n"}, {}, 5), (Replies{{kAnn, {5, 0, 0, 0, 0, 0, 0, 0}}}));
  ask(kAnn, Query::add, {"n"}, {}, static_cast<std::uint64_t>(-7));
  EXPECT_EQ(value("n"), "-2");
}

TEST_F(TableTest, AnAddThatMakesNoSenseClosesItsSender) {
  ask(kAnn, Query::set, {"n"}, {bytes_of("12x")});
  ask(kAnn, Query::add, {"n"}, {}, 1);
  EXPECT_EQ(refusal_, "an add to a value that is not a number");
  ask(kAnn, Query::set, {"n"}, {bytes_of("9223372036854775807")});
  ask(kAnn, Query::add, {"n"}, {}, 1);
  EXPECT_EQ(refusal_, "an add beyond 64 bits");
}

TEST_F(TableTest, CompareSetAnswersWithWhatIsThereAfterwards) {
  const auto answer = [](std::string_view text) {
    return Replies{{kAnn, FrameWriter().text(text).take()}};
  };
  const auto cas = [&](std::string_view expected, std::string_view desired) {
    return ask(kAnn, Query::compare_set, {"k"}, {bytes_of(expected), bytes_of(desired)});
  };
  EXPECT_EQ(cas("x", "a"), answer("x"));  // missing, and not expected to be
  EXPECT_EQ(cas("", "a"), answer("a"));
  EXPECT_EQ(cas("x", "b"), answer("a"));
  EXPECT_EQ(cas("a", "b"), answer("b"));
  EXPECT_EQ(value("k"), "b");
}

TEST_F(TableTest, ACancelledWaitIsNeverAnswered) {
  EXPECT_TRUE(ask(kAnn, Query::wait, {"a"}).empty());
  EXPECT_EQ(ask(kAnn, Query::cancel_wait, {}), (Replies{{kAnn, {kWaitCanceled}}}));
  EXPECT_TRUE(ask(kBob, Query::set, {"a"}, {{1}}).empty());
}

TEST_F(TableTest, ADepartedClientLeavesNoWaitBehind) {
  EXPECT_TRUE(ask(kAnn, Query::wait, {"a", "b"}).empty());
  table_.forget(kAnn);
  EXPECT_TRUE(ask(kBob, Query::multi_set, {"a", "b"}, {{1}, {1}}).empty());
}

TEST_F(TableTest, DeleteAppendListAndCheck) {
  ask(kAnn, Query::append, {"k"}, {bytes_of("ab")});
  ask(kAnn, Query::append, {"k"}, {bytes_of("cd")});
  EXPECT_EQ(value("k"), "abcd");
  EXPECT_EQ(ask(kAnn, Query::list_keys, {}),
            (Replies{{kAnn, FrameWriter().u64(1).text("k").take()}}));
  EXPECT_EQ(ask(kAnn, Query::check, {"k"}), (Replies{{kAnn, {kReady}}}));
  EXPECT_EQ(ask(kAnn, Query::check, {"k", "z"}), (Replies{{kAnn, {kNotReady}}}));
  EXPECT_EQ(ask(kAnn, Query::delete_key, {"k"}), (Replies{{kAnn, {1, 0, 0, 0, 0, 0, 0, 0}}}));
  EXPECT_EQ(ask(kAnn, Query::delete_key, {"k"}), (Replies{{kAnn, Bytes(8, 0)}}));
  EXPECT_EQ(table_.held_bytes(), 0U);
}

TEST_F(TableTest, AValueCannotGrowWithoutEnd) {
  const Bytes part(kMaxValueBytes / 2 + 1);
  ask(kAnn, Query::append, {"k"}, {part});
  EXPECT_EQ(refusal_, "");
  ask(kAnn, Query::append, {"k"}, {part});
  EXPECT_NE(refusal_, "");
}

}  // namespace
}  // namespace lockstep::store
