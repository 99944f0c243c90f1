#include "lockstep/metrics/canvas.h"

#include <gtest/gtest.h>

namespace lockstep::metrics {
namespace {

TEST(Canvas, DrawsEightDotsToACharacter) {
  Canvas canvas(2, 1, {});
  canvas.line(0, 0, 1, 0, Tone::plain, '*');
  EXPECT_EQ(canvas.draw(), (std::vector<std::string>{"⣀⣀"}));
  canvas.line(0, 0, 0, 1, Tone::plain, '*');
  EXPECT_EQ(canvas.draw(), (std::vector<std::string>{"⣇⣀"}));
}

TEST(Canvas, DrawsOneCharacterADotInAscii) {
  Canvas canvas(4, 2, {false, false});
  canvas.line(0, 0, 1, 1, Tone::plain, '*');
  EXPECT_EQ(canvas.draw(), (std::vector<std::string>{"  **", "**  "}));
}

TEST(Canvas, MarksStandInFrontAndOnTheLine) {
  Canvas canvas(3, 3, {});
  for (const double y : {0.0, 0.3, 0.5, 0.8, 1.0}) {
    canvas.line(0, y, 0, y, Tone::plain, '*');
    canvas.mark(0, y, "x", Tone::plain);
  }
  for (const std::string& line : canvas.draw()) EXPECT_TRUE(line == "x  " || line == "   ") << line;
}

TEST(Canvas, PlacesOutsideAreDrawnAtTheEdge) {
  Canvas canvas(3, 1, {false, false});
  canvas.mark(7, -3, "x", Tone::plain);
  EXPECT_EQ(canvas.draw().at(0), "  x");
  EXPECT_EQ(canvas.row_of(1), 0U);
  EXPECT_EQ(canvas.column_of(0), 0U);
}

}  // namespace
}  // namespace lockstep::metrics
