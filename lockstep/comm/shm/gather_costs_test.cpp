#include "lockstep/comm/shm/gather_costs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <vector>

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kPart = std::size_t{512} << 10;
constexpr std::size_t kKiB = kPart / 1024;

/// Two ranks that each take so long a KiB by each way; how often each was taken.
std::map<GatherWay, int> ways_of(std::vector<GatherCosts>& ranks, std::array<double, 3> ns,
                                 int gathers, bool reads = true) {
  std::map<GatherWay, int> taken;
  for (int i = 0; i < gathers; ++i) {
    std::vector<GatherOffer> offers;
    for (GatherCosts& rank : ranks) offers.push_back(rank.next_offer(kPart, reads));
    const GatherWay way = agreed_way(offers);
    ++taken[way];
    for (GatherCosts& rank : ranks) {
      rank.note(way, kPart, ns[static_cast<std::size_t>(way)] * static_cast<double>(kKiB));
    }
  }
  return taken;
}

TEST(GatherCosts, TheCheapestWayIsTakenAndTheOthersAreTriedNowAndThen) {
  std::vector<GatherCosts> ranks(2);
  auto taken = ways_of(ranks, {86, 190, 101}, 1000);
  EXPECT_GT(taken[GatherWay::plain], 950);
  EXPECT_GT(taken[GatherWay::streamed], 5);
  EXPECT_GT(taken[GatherWay::reading], 5);
}

TEST(GatherCosts, WhatBecomesDearIsLeftAndFoundAgainWhenItIsCheap) {
  std::vector<GatherCosts> ranks(2);
  (void)ways_of(ranks, {86, 190, 101}, 100);
  EXPECT_GT(ways_of(ranks, {520, 170, 101}, 100)[GatherWay::reading], 80);
  EXPECT_GT(ways_of(ranks, {520, 170, 220}, 100)[GatherWay::streamed], 75);
  (void)ways_of(ranks, {86, 190, 101}, 200);
  EXPECT_GT(ways_of(ranks, {86, 190, 101}, 100)[GatherWay::plain], 90);
}

TEST(GatherCosts, WhatCostsAllRanksTheLeastIsTaken) {
  std::vector<GatherOffer> offers(2);
  offers[0] = {.costs = {100, 300, 200}, .reads = true};
  offers[1] = {.costs = {400, 300, 200}, .reads = true};
  EXPECT_EQ(agreed_way(offers), GatherWay::reading);
}

TEST(GatherCosts, NobodyReadsUnlessAllCan) {
  std::vector<GatherCosts> ranks(2);
  EXPECT_EQ(ways_of(ranks, {86, 190, 10}, 300, false)[GatherWay::reading], 0);
  std::vector<GatherOffer> offers(2);
  offers[0] = {
      .costs = {100, 300, 50}, .tries = GatherWay::reading, .is_trial = true, .reads = true};
  offers[1] = {.costs = {100, 300, 50}, .reads = false};
  EXPECT_EQ(agreed_way(offers), GatherWay::plain);
}

TEST(GatherCosts, SizesHaveTheirOwn) {
  std::vector<GatherCosts> ranks(2);
  (void)ways_of(ranks, {86, 190, 101}, 100);
  EXPECT_EQ(ranks[0].next_offer(8 * kPart, true).costs, (std::array<float, 3>{}));
}

TEST(GatherCosts, AnyBytesAreAnOffer) {
  Slot slot{};
  std::memset(slot.payload, 0xff, sizeof slot.payload);  // costs that are no numbers, no such way
  std::vector<GatherOffer> offers(2, read_offer(slot));
  EXPECT_LE(agreed_way(offers), GatherWay::reading);
  offers[0].is_trial = false;
  EXPECT_EQ(agreed_way(offers), GatherWay::plain);
}

TEST(GatherCosts, AnOfferIsReadAsItWasWritten) {
  const GatherOffer offer{.address = 0x1234,
                          .costs = {1, 2, 3},
                          .tries = GatherWay::streamed,
                          .is_trial = true,
                          .reads = true};
  Slot slot{};
  write_offer(slot, offer);
  const GatherOffer read = read_offer(slot);
  EXPECT_EQ(read.address, offer.address);
  EXPECT_EQ(read.costs, offer.costs);
  EXPECT_EQ(read.tries, offer.tries);
  EXPECT_EQ(read.is_trial, offer.is_trial);
  EXPECT_EQ(read.reads, offer.reads);
}

}  // namespace
}  // namespace lockstep::comm::shm
