#include "lockstep/optim/flat_layout.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

TEST(FlatLayout, EverySlotStartsAtAMultipleOfThePadding) {
  const FlatLayout layout = make_layout({"a", "b", "c", "d"}, {1, 64, 65, 3});
  ASSERT_EQ(layout.slots.size(), 4U);
  EXPECT_EQ(layout.slots[0].offset, 0);
  EXPECT_EQ(layout.slots[1].offset, 64);
  EXPECT_EQ(layout.slots[2].offset, 128);
  EXPECT_EQ(layout.slots[3].offset, 256);
  EXPECT_EQ(layout.slots[3].name, "d");
  EXPECT_EQ(layout.slots[3].count, 3);
}

TEST(FlatLayout, TheTotalIsAWholeNumberOfChunks) {
  EXPECT_EQ(make_layout({}, {}).total, 0);
  EXPECT_EQ(make_layout({"a"}, {1}).total, kChunkElements);
  EXPECT_EQ(make_layout({"a"}, {kChunkElements}).total, kChunkElements);
  EXPECT_EQ(make_layout({"a", "b"}, {kChunkElements, 1}).total, 2 * kChunkElements);
}

TEST(FlatLayout, AnEmptyParameterTakesNoRoom) {
  const FlatLayout layout = make_layout({"a", "none", "b"}, {10, 0, 10});
  EXPECT_EQ(layout.slots[1].offset, 64);
  EXPECT_EQ(layout.slots[2].offset, 64);
}

TEST(FlatLayout, UnequalListsAreABug) {
  EXPECT_THROW((void)make_layout({"a"}, {1, 2}), Bug);
  EXPECT_THROW((void)make_layout({"a"}, {-1}), Bug);
}

}  // namespace
}  // namespace lockstep::optim
