#include "lockstep/comm/records/record_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep::comm {
namespace {

TEST(RecordRing, NumbersCollectivesFromOneAndRemembersTheirEnd) {
  RecordRing ring;
  EXPECT_EQ(ring.begin("broadcast", "float32", 8), 1);
  EXPECT_EQ(ring.begin("all_reduce", "bfloat16", 16), 2);
  EXPECT_FALSE(ring.last_completed());
  ring.end(1, CollectiveState::completed);
  const auto first = ring.find(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->state, CollectiveState::completed);
  EXPECT_GE(first->ended_us, first->issued_us);
  EXPECT_EQ(ring.find(2)->state, CollectiveState::issued);
  EXPECT_EQ(ring.last_completed()->op, "broadcast");
}

TEST(RecordRing, TheFirstEndOfACollectiveStands) {
  RecordRing ring;
  const auto seq = ring.begin("barrier", "", 0);
  ring.end(seq, CollectiveState::failed);
  ring.end(seq, CollectiveState::completed);
  EXPECT_EQ(ring.find(seq)->state, CollectiveState::failed);
  EXPECT_FALSE(ring.last_completed());
}

TEST(RecordRing, LastCompletedIsTheHighestNumberWhateverTheOrderOfEnds) {
  RecordRing ring;
  ring.begin("all_reduce", "float32", 1);
  ring.begin("all_reduce", "float32", 2);
  ring.end(2, CollectiveState::completed);
  ring.end(1, CollectiveState::completed);
  EXPECT_EQ(ring.last_completed()->seq, 2);
}

TEST(RecordRing, KeepsTheLast256AndForgetsOlderOnes) {
  RecordRing ring;
  for (int i = 0; i < 300; ++i) ring.begin("all_reduce", "float32", i);
  const auto records = ring.records();
  ASSERT_EQ(records.size(), RecordRing::kCapacity);
  EXPECT_EQ(records.front().seq, 45);
  EXPECT_EQ(records.back().seq, 300);
  EXPECT_FALSE(ring.find(44));
  ring.end(44, CollectiveState::completed);
  EXPECT_EQ(ring.find(300)->state, CollectiveState::issued);
  EXPECT_FALSE(ring.find(0));
}

TEST(RecordRing, TextNamesOperationNumberTypeAndCount) {
  EXPECT_EQ(describe({.seq = 17, .op = "all_reduce", .dtype = "float32", .count = 1024}),
            "all_reduce #17 (float32, 1024 elements)");
  EXPECT_EQ(describe({.seq = 3, .op = "broadcast", .dtype = "int64", .count = 1}),
            "broadcast #3 (int64, 1 element)");
  EXPECT_EQ(describe({.seq = 9, .op = "barrier"}), "barrier #9");
}

TEST(RecordRing, SeveralThreadsMayEndCollectivesWhileOneBegins) {
  RecordRing ring;
  std::vector<std::thread> enders;
  for (int t = 0; t < 3; ++t) {
    enders.emplace_back([&ring] {
      for (std::int64_t seq = 1; seq <= 200; ++seq) ring.end(seq, CollectiveState::completed);
    });
  }
  for (int i = 0; i < 200; ++i) ring.begin("all_reduce", "float32", i);
  for (auto& ender : enders) ender.join();
  for (std::int64_t seq = 1; seq <= 200; ++seq) ring.end(seq, CollectiveState::completed);
  for (const auto& record : ring.records()) EXPECT_EQ(record.state, CollectiveState::completed);
  EXPECT_EQ(ring.last_completed()->seq, 200);
}

}  // namespace
}  // namespace lockstep::comm
