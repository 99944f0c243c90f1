#include "lockstep/comm/host_layout.h"

#include <gtest/gtest.h>

#include "lockstep/comm/records/flight_words.h"

namespace lockstep::comm {
namespace {

TEST(HostLayout, HostsAreNumberedByTheirFirstRanks) {
  const HostLayout layout({"b", "a", "b", "a", "c"}, 2);
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_EQ(layout.host(), 0);
  EXPECT_EQ(layout.local(), 1);
  EXPECT_EQ(layout.host_of(4), 2);
  EXPECT_EQ(layout.ranks_of(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(layout.most_on_a_host(), 2);
}

TEST(HostLayout, OneRankEachSharesNothing) {
  const HostLayout layout({"a", "b", "c"}, 0);
  EXPECT_FALSE(layout.is_shared());
  EXPECT_TRUE(layout.is_even());
}

TEST(HostLayout, TreesNestOnlyInEqualBlocksOfAPowerOfTwo) {
  EXPECT_TRUE(HostLayout({"a", "a", "b", "b"}, 0).nests_tree());
  EXPECT_FALSE(HostLayout({"a", "b", "a", "b"}, 0).nests_tree());
  EXPECT_FALSE(HostLayout({"a", "a", "a", "b"}, 0).nests_tree());
  EXPECT_FALSE(HostLayout({"a", "a", "a", "b", "b", "b"}, 0).nests_tree());
  EXPECT_FALSE(HostLayout({"a", "b", "b", "a"}, 0).is_contiguous());
}

TEST(HostLayout, MessagesAboutRanksOfAHostAreToldInTheNumbersOfTheGroup) {
  const std::vector<int> ranks{4, 6, 9};
  EXPECT_EQ(in_group_numbers("rank 1 has not entered it; rank 0 has waited for 3 s", ranks),
            "rank 6 has not entered it; rank 4 has waited for 3 s");
  EXPECT_EQ(in_group_numbers("ranks 0, 1 and 2 stopped within it", ranks),
            "ranks 4, 6 and 9 stopped within it");
  EXPECT_EQ(in_group_numbers("rank 2 (process 1) ended, and 1 more", ranks),
            "rank 9 (process 1) ended, and 1 more");
}

TEST(HostLayout, WhatIsNoRankOfTheHostStaysAsItIs) {
  const std::vector<int> ranks{4};
  for (const char* text : {"rank 7 ended", "rank ", "ranks and files", "crank 0",
                           "rank 99999999999", "collective #0: 3 float32", ""}) {
    EXPECT_EQ(in_group_numbers(text, ranks), text);
  }
}

TEST(HostLayout, RanksThatAMessageNamesAreFound) {
  EXPECT_EQ(ranks_named_in("ranks 4, 6 and 9 stopped; rank 12 waits"),
            (std::vector<int>{4, 6, 9, 12}));
  EXPECT_TRUE(ranks_named_in("crank 3, rank 99999999999 of 7 float32").empty());
}

TEST(HostLayout, ListsReadLikeSentences) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1, 3}), "ranks 0, 1 and 3");
}

}  // namespace
}  // namespace lockstep::comm
