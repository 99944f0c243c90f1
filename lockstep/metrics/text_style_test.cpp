#include "lockstep/metrics/text_style.h"

#include <gtest/gtest.h>

namespace lockstep::metrics {
namespace {

TEST(TextStyle, WithoutColoursTextStaysAsItIs) {
  EXPECT_EQ(TextStyle{}.paint(Tone::bad, "x"), "x");
  EXPECT_EQ((TextStyle{true, true}.paint(Tone::bad, "x")), "\x1b[31mx\x1b[0m");
  EXPECT_EQ((TextStyle{true, true}.paint(Tone::plain, "x")), "x");
  EXPECT_EQ((TextStyle{true, true}.paint(Tone::bad, "")), "") << "no escape around nothing";
}

TEST(TextStyle, ColumnsCountWhatIsSeen) {
  EXPECT_EQ(columns("abc"), 3U);
  EXPECT_EQ(columns("▕█▏"), 3U);
  EXPECT_EQ(columns("\x1b[1;36mab\x1b[0m\x1b[K"), 2U);
  EXPECT_EQ(columns("\x1b["), 0U) << "a torn escape sequence ends with the text";
}

TEST(TextStyle, PaddingIgnoresColours) {
  const TextStyle style{true, true};
  EXPECT_EQ(columns(pad_left(style.paint(Tone::good, "ab"), 5)), 5U);
  EXPECT_EQ(pad_right("ab", 4), "ab  ");
  EXPECT_EQ(pad_left("abc", 2), "abc");
}

TEST(TextStyle, TextFromElsewhereCannotDriveTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\rc\x7f", true), "a [2Jb c ");
  EXPECT_EQ(printable("größe", false), "gr??e");
  EXPECT_EQ(printable("größe", true), "größe");
  EXPECT_EQ(printable("one\ntwo", false), "one\ntwo");
}

}  // namespace
}  // namespace lockstep::metrics
