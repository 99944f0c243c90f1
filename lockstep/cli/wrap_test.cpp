#include "lockstep/cli/wrap.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(Wrapped, BreaksAtBlanksAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", 0, 2, 7), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 4, 4, 11), "one two\n    three");
}

TEST(Wrapped, LeavesShortTextAndLongWordsAsTheyAre) {
  EXPECT_EQ(wrapped("", 0, 0, 10), "");
  EXPECT_EQ(wrapped("one two", 0, 0, 7), "one two");
  EXPECT_EQ(wrapped("unbreakable text", 0, 0, 5), "unbreakable\ntext");
}

}  // namespace
}  // namespace lockstep::cli
