#include "lockstep/comm/records/flight_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "lockstep/comm/records/group_flight.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

class FlightFolderTest : public testing::Test {
 protected:
  std::shared_ptr<FlightRecorder> recorder(int rank, int ranks, std::uint64_t job) const {
    auto made = std::make_shared<FlightRecorder>(rank, ranks);
    made->persist(flight_file(folder_.path(), rank), job);
    return made;
  }
  [[nodiscard]] FlightFolder look() const { return look_at_folder(folder_.path() / "flight"); }

  test::ScratchFolder folder_;
};

TEST_F(FlightFolderTest, HoldsTheRanksOfTheNewestJobInOrder) {
  const auto old = recorder(3, 4, 1);
  const auto second = recorder(1, 2, 2);
  const auto first = recorder(0, 2, 2);
  const FlightFolder folder = look();
  ASSERT_EQ(folder.views.size(), 2U);
  EXPECT_EQ(folder.views[0].flight.rank, 0);
  EXPECT_EQ(folder.views[1].flight.rank, 1);
  EXPECT_EQ(folder.views[0].process.state, ProcessState::running);
  EXPECT_TRUE(folder.notes.empty());
}

TEST_F(FlightFolderTest, WhatCannotBeReadIsANote) {
  const auto first = recorder(0, 2, 2);
  folder_.write("flight/rank-1.ring", "not a ring");
  folder_.write("flight/other", "not looked at");
  const FlightFolder folder = look();
  EXPECT_EQ(folder.views.size(), 1U);
  ASSERT_EQ(folder.notes.size(), 1U);
  EXPECT_THAT(folder.notes[0], HasSubstr("rank-1.ring: too short"));
}

TEST_F(FlightFolderTest, AFolderThatIsNotThereHoldsNothing) { EXPECT_TRUE(look().views.empty()); }

TEST_F(FlightFolderTest, AFailureTextCarriesTheVerdictOverAllRanks) {
  const auto first = recorder(0, 2, 2);
  const auto second = recorder(1, 2, 2);
  GroupFlight mine(first, "world", 0, 2);
  GroupFlight other(second, "world", 1, 2);
  for (GroupFlight* flight : {&mine, &other}) {
    flight->ended(flight->begin("broadcast", "int64", 1, 8), true);
  }
  second->set_phase(Phase::data);
  const Purpose purpose("bucket 0");
  const Ticket ticket = mine.begin("all_reduce", "float32", 1024, 4096);
  mine.ended(ticket, false);
  const std::string text = mine.failure_text(ticket, "300 ms", "timed out");
  EXPECT_THAT(text, HasSubstr("all_reduce #2 (float32, 1024 elements) failed (deadline 300 ms): "
                              "timed out; last completed here: broadcast #1 (int64, 1 element); "
                              "rank 1 has not entered all_reduce #2 of group world (bucket 0); it "
                              "has been in data wait for"));
  EXPECT_THAT(text, HasSubstr("; rank 0 gave up after"));
}

TEST(GroupFlight, WithoutAFileAFailureTextTellsOnlyWhatThisRankKnows) {
  GroupFlight flight(nullptr, "world", 0, 2);
  const Ticket ticket = flight.begin("barrier", "", 0, 0);
  flight.ended(ticket, false);
  EXPECT_EQ(flight.failure_text(ticket, "1 s", "closed"),
            "barrier #1 failed (deadline 1 s): closed; none had completed before");
}

}  // namespace
}  // namespace lockstep::comm
