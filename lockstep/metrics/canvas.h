// Drawing with dots in a terminal: 2 x 4 to a column (braille), or one in ASCII.
#pragma once
#include <string>
#include <vector>

#include "lockstep/metrics/text_style.h"

namespace lockstep::metrics {

/// `columns` x `rows` characters. Coordinates are shares of the canvas, 0 0 = lower left corner.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows, const TextStyle& style);

  /// \param ascii drawn where dots cannot be. \param every 1 = a full line, 2 = every second dot.
  void line(double x0, double y0, double x1, double y1, Tone tone, char ascii, int every = 1);
  /// One character in front of all dots.
  void mark(double x, double y, const std::string& character, Tone tone);
  /// The character a place falls into; rows count from the top.
  [[nodiscard]] std::size_t column_of(double x) const;
  [[nodiscard]] std::size_t row_of(double y) const;
  /// Lines from top to bottom.
  [[nodiscard]] std::vector<std::string> draw() const;

 private:
  struct Cell {
    unsigned dots = 0;  // bits of Unicode's braille patterns, or an ASCII character
    Tone tone = Tone::plain;
    std::string mark;
  };
  void dot(long x, long y, Tone tone, char ascii);
  [[nodiscard]] std::string glyph(const Cell& cell) const;

  std::size_t columns_;
  std::size_t rows_;
  TextStyle style_;
  long dots_across_;
  long dots_up_;
  std::vector<Cell> cells_;
};

}  // namespace lockstep::metrics
