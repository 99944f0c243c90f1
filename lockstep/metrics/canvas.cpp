#include "lockstep/metrics/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::metrics {
namespace {

constexpr unsigned kBrailleBase = 0x2800;
// Bit of the dot in column x (0, 1) and row y from the top (Unicode, block Braille Patterns).
constexpr std::array<std::array<unsigned, 4>, 2> kDotBits{
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

std::string three_bytes(unsigned code_point) {
  return {static_cast<char>(0xE0U | (code_point >> 12U)),
          static_cast<char>(0x80U | ((code_point >> 6U) & 0x3FU)),
          static_cast<char>(0x80U | (code_point & 0x3FU))};
}

long place(double share, long count) {
  return std::clamp(std::lround(share * static_cast<double>(count - 1)), 0L, count - 1);
}

}  // namespace

Canvas::Canvas(std::size_t columns, std::size_t rows, const TextStyle& style)
    : columns_(columns),
      rows_(rows),
      style_(style),
      dots_across_(static_cast<long>(columns) * (style.utf8 ? 2 : 1)),
      dots_up_(static_cast<long>(rows) * (style.utf8 ? 4 : 1)),
      cells_(columns * rows) {}

void Canvas::dot(long x, long y, Tone tone, char ascii) {
  const long down = dots_up_ - 1 - y;
  const auto across = static_cast<std::size_t>(x);
  const auto below = static_cast<std::size_t>(down);
  const std::size_t cell_x = style_.utf8 ? across / 2 : across;
  const std::size_t cell_y = style_.utf8 ? below / 4 : below;
  Cell& cell = cells_.at(cell_y * columns_ + cell_x);
  if (style_.utf8) {
    cell.dots |= kDotBits.at(across % 2).at(below % 4);
  } else {
    cell.dots = static_cast<unsigned char>(ascii);
  }
  cell.tone = tone;
}

void Canvas::line(double x0, double y0, double x1, double y1, Tone tone, char ascii, int every) {
  const long from_x = place(x0, dots_across_);
  const long from_y = place(y0, dots_up_);
  const long to_x = place(x1, dots_across_);
  const long to_y = place(y1, dots_up_);
  const long steps = std::max({std::labs(to_x - from_x), std::labs(to_y - from_y), 1L});
  for (long i = 0; i <= steps; i += every) {
    const double share = static_cast<double>(i) / static_cast<double>(steps);
    dot(from_x + std::lround(share * static_cast<double>(to_x - from_x)),
        from_y + std::lround(share * static_cast<double>(to_y - from_y)), tone, ascii);
  }
}

std::size_t Canvas::column_of(double x) const {
  return static_cast<std::size_t>(place(x, dots_across_)) / (style_.utf8 ? 2 : 1);
}

std::size_t Canvas::row_of(double y) const {
  return static_cast<std::size_t>(dots_up_ - 1 - place(y, dots_up_)) / (style_.utf8 ? 4 : 1);
}

void Canvas::mark(double x, double y, const std::string& character, Tone tone) {
  Cell& cell = cells_.at(row_of(y) * columns_ + column_of(x));
  cell.mark = character;
  cell.tone = tone;
}

std::string Canvas::glyph(const Cell& cell) const {
  if (!cell.mark.empty()) return style_.paint(cell.tone, cell.mark);
  if (cell.dots == 0) return " ";
  return style_.paint(cell.tone, style_.utf8 ? three_bytes(kBrailleBase + cell.dots)
                                             : std::string(1, static_cast<char>(cell.dots)));
}

std::vector<std::string> Canvas::draw() const {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows_; ++row) {
    std::string line;
    for (std::size_t column = 0; column < columns_; ++column) {
      line += glyph(cells_[row * columns_ + column]);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace lockstep::metrics
