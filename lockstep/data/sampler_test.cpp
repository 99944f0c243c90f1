#include "lockstep/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

TEST(Sampler, MoreSamplesThanAPermutationHoldsAreAUsageError) {
  try {
    const Sampler sampler(std::int64_t{1} << 32, 1, 8);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().at(0).code, "LS-2010");
    EXPECT_NE(error.problems().at(0).what.find("4,294,967,296"), std::string::npos);
  }
}

// Ids that leaves [first, first + count) of `leaves` see in one epoch.
Ids epoch_ids(const Sampler& sampler, std::int64_t epoch, std::int64_t first, std::int64_t count,
              std::int64_t leaves) {
  Ids seen;
  for (Position at{epoch, 0}; at.epoch == epoch; at = sampler.after(at)) {
    const Ids ids = sampler.step_ids(at);
    for (std::int64_t leaf = first; leaf < first + count; ++leaf) {
      const auto part = part_of(ids, leaf, leaves);
      seen.insert(seen.end(), part.begin(), part.end());
    }
  }
  return seen;
}

Ids all_ids(std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Sampler, EpochsDifferWithoutAnybodySettingThem) {
  const Sampler sampler(1000, 7, 10);
  const Ids first = epoch_ids(sampler, 0, 0, 1, 1);
  const Ids second = epoch_ids(sampler, 1, 0, 1, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), all_ids(1000));
  EXPECT_EQ(sorted(second), all_ids(1000));
}

TEST(Sampler, RanksShareOnePermutationDisjointAndComplete) {
  Ids together;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Sampler of_rank(103, 5, 8);  // each rank has its own
    const Ids seen = epoch_ids(of_rank, 1, rank, 1, 4);
    together.insert(together.end(), seen.begin(), seen.end());
  }
  EXPECT_EQ(sorted(together), all_ids(103));
}

TEST(Sampler, EveryNumberOfLeavesCoversEachSampleOnceAnEpochWithAnUnevenTail) {
  for (const std::int64_t leaves : {1, 2, 4, 8, 16, 32}) {
    const Sampler sampler(203, 3, 32);
    EXPECT_EQ(sorted(epoch_ids(sampler, 2, 0, leaves, leaves)), all_ids(203)) << leaves;
  }
}

TEST(Sampler, LeavesInTheirOrderAreTheStepWhateverTheirNumber) {
  const Sampler sampler(40, 3, 16);
  const Ids whole = epoch_ids(sampler, 0, 0, 1, 1);
  for (const std::int64_t leaves : {2, 4, 8, 16}) {
    EXPECT_EQ(epoch_ids(sampler, 0, 0, leaves, leaves), whole) << leaves;
  }
}

TEST(Sampler, TwentyOneSamplesCountAsTwentyOneOverTwoAndFourParts) {
  const Ids ids = all_ids(21);
  for (const std::int64_t parts : {2, 4}) {
    std::size_t counted = 0;
    for (std::int64_t part = 0; part < parts; ++part) counted += part_of(ids, part, parts).size();
    EXPECT_EQ(counted, 21U) << parts;
  }
}

TEST(Sampler, TheSeedChoosesThePermutation) {
  EXPECT_EQ(Sampler(50, 1, 50).step_ids({}), Sampler(50, 1, 50).step_ids({}));
  EXPECT_NE(Sampler(50, 1, 50).step_ids({}), Sampler(50, 2, 50).step_ids({}));
}

TEST(Sampler, AskingBackAndForthChangesNothing) {
  const Sampler sampler(50, 1, 20);
  const Ids before = sampler.step_ids({0, 20});
  (void)sampler.step_ids({3, 0});
  EXPECT_EQ(sampler.step_ids({0, 20}), before);
}

TEST(Sampler, StepsCountUpThroughEpochsAndTheirShortLastStep) {
  const Sampler sampler(10, 1, 4);
  Position at;
  for (std::int64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(at, (Position{step / 3, step % 3 * 4})) << step;
    at = sampler.after(at);
  }
  EXPECT_EQ(sampler.step_ids({0, 8}).size(), 2U);
}

TEST(Sampler, AStepMayBeLargerThanTheDataSet) {
  const Sampler sampler(3, 1, 100);
  EXPECT_EQ(sampler.step_ids({}).size(), 3U);
  EXPECT_EQ(sampler.after({}), (Position{1, 0}));
}

TEST(Sampler, APositionOfAnotherBatchSizeContinuesTheSameEpoch) {
  const Sampler before(30, 1, 6);
  const Sampler after(30, 1, 4);
  Ids seen = before.step_ids({0, 0});
  for (Position at{0, 6}; at.epoch == 0; at = after.after(at)) {
    const Ids ids = after.step_ids(at);
    seen.insert(seen.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(sorted(seen), all_ids(30));
}

TEST(Sampler, RefusesAnEmptyDataSetAndPositionsOutsideOfTheEpoch) {
  EXPECT_THROW(Sampler(0, 1, 4), UsageError);
  EXPECT_THROW(Sampler(10, 1, 0), Bug);
  EXPECT_THROW((void)Sampler(10, 1, 4).step_ids({0, 10}), Bug);
  EXPECT_THROW((void)Sampler(10, 1, 4).step_ids({0, -1}), Bug);
}

TEST(Sampler, EveryPositionOfAPermutationIsAboutEquallyLikely) {
  std::vector<int> first_counts(4, 0);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    ++first_counts.at(static_cast<std::size_t>(Sampler(4, seed, 1).step_ids({})[0]));
  }
  for (const int count : first_counts) EXPECT_NEAR(count, 500, 100);  // five standard deviations
}

TEST(PartOf, FewerIdsThanLeavesLeaveTheLastOnesEmpty) {
  const Ids ids = all_ids(3);
  const std::vector<std::size_t> sizes{part_of(ids, 0, 5).size(), part_of(ids, 1, 5).size(),
                                       part_of(ids, 2, 5).size(), part_of(ids, 3, 5).size(),
                                       part_of(ids, 4, 5).size()};
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 1, 1, 0, 0}));
  EXPECT_TRUE(part_of({}, 1, 2).empty());
  EXPECT_THROW((void)part_of(ids, 5, 5), Bug);
}

TEST(PartOf, PartsDifferByAtMostOne) {
  const Ids ids = all_ids(21);
  EXPECT_EQ(part_of(ids, 0, 4).size(), 6U);
  EXPECT_EQ(part_of(ids, 1, 4).size(), 5U);
  EXPECT_EQ(part_of(ids, 3, 4).size(), 5U);
  EXPECT_EQ(part_of(ids, 3, 4).back(), 20);
}

TEST(AugmentKey, DiffersByEpochAndSeedAndIsNeverZero) {
  const std::set<std::uint64_t> keys{augment_key(1, 0), augment_key(1, 1), augment_key(2, 0)};
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_FALSE(keys.contains(0));
}

}  // namespace
}  // namespace lockstep::data
