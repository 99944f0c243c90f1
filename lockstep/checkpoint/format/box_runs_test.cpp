#include "lockstep/checkpoint/format/box_runs.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::checkpoint {
namespace {

using Elements = std::vector<std::uint64_t>;

/// Elements of the whole tensor in the order in which the box stores them.
Elements elements_of(const Shape& whole, const Box& box) {
  const BoxRuns runs(whole, box);
  Elements elements;
  for (std::uint64_t run = 0; run < runs.count(); ++run) {
    for (std::uint64_t i = 0; i < runs.elements(); ++i) elements.push_back(runs.start(run) + i);
  }
  return elements;
}

TEST(BoxRuns, TheWholeTensorIsOneRun) {
  const BoxRuns runs({2, 3, 4}, {{0, 0, 0}, {2, 3, 4}});
  EXPECT_EQ(runs.count(), 1U);
  EXPECT_EQ(runs.elements(), 24U);
  EXPECT_EQ(runs.start(0), 0U);
}

TEST(BoxRuns, RowsAreOneRunAndColumnsOneARow) {
  EXPECT_EQ(BoxRuns({4, 3}, {{1, 0}, {2, 3}}).count(), 1U);
  EXPECT_EQ(elements_of({4, 3}, {{1, 0}, {2, 3}}), (Elements{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(BoxRuns({3, 4}, {{0, 1}, {3, 2}}).count(), 3U);
  EXPECT_EQ(elements_of({3, 4}, {{0, 1}, {3, 2}}), (Elements{1, 2, 5, 6, 9, 10}));
}

TEST(BoxRuns, ABoxInsideStandsWhereItIs) {
  EXPECT_EQ(elements_of({2, 3, 4}, {{1, 1, 2}, {1, 2, 2}}), (Elements{18, 19, 22, 23}));
  EXPECT_EQ(elements_of({2, 3, 4}, {{0, 1, 0}, {2, 1, 4}}), (Elements{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(elements_of({3, 1, 2}, {{1, 0, 1}, {2, 1, 1}}), (Elements{3, 5}));
}

TEST(BoxRuns, ANumberIsOneRunAndNothingIsNone) {
  EXPECT_EQ(elements_of({}, {{}, {}}), Elements{0});
  EXPECT_EQ(BoxRuns({3, 0}, {{0, 0}, {3, 0}}).count(), 0U);
  EXPECT_EQ(BoxRuns({3, 2}, {{1, 2}, {2, 0}}).first_behind(0), 0U);
}

TEST(BoxRuns, TheFirstRunBehindAnElementIsFound) {
  const BoxRuns runs({3, 4}, {{0, 1}, {3, 2}});  // 1-2, 5-6, 9-10
  for (const auto& [element, run] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 0}, {1, 0}, {2, 0}, {3, 1}, {5, 1}, {6, 1}, {7, 2}, {10, 2}, {11, 3}}) {
    EXPECT_EQ(runs.first_behind(element), run) << element;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
