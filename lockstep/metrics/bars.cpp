#include "lockstep/metrics/bars.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/units.h"

namespace lockstep::metrics {
namespace {

constexpr std::array<const char*, 9> kEighthsWide{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<const char*, 8> kEighthsHigh{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 8> kAsciiHigh{"_", ".", ",", "-", "~", "=", "*", "#"};
constexpr double kLeastShown = 0.0005;

double amount_of(const BarPart& part) { return part.amount > 0 ? part.amount : 0; }

double total_of(std::span<const BarPart> parts) {
  double total = 0;
  for (const BarPart& part : parts) total += amount_of(part);
  return total;
}

/// The end of each part in eighths of a column; the last is 8 x width.
std::vector<long> ends_in_eighths(std::span<const BarPart> parts, std::size_t width) {
  const double total = total_of(parts);
  std::vector<long> ends;
  double sum = 0;
  for (const BarPart& part : parts) {
    sum += amount_of(part);
    ends.push_back(std::lround(sum / total * 8.0 * static_cast<double>(width)));
  }
  return ends;
}

std::size_t part_at(const std::vector<long>& ends, long eighth) {
  const auto end = std::upper_bound(ends.begin(), ends.end(), eighth);
  return std::min(static_cast<std::size_t>(end - ends.begin()), ends.size() - 1);
}

std::string swatch(const BarPart& part, const TextStyle& style) {
  if (!style.utf8) return style.paint(part.tone, std::string(1, part.letter));
  return style.color ? style.paint(part.tone, "█") : std::string(part.shade);
}

// A cell that two parts share is drawn as a partial block in the left one's colour on the right
// one's.
std::string shared_cell(const std::vector<long>& ends, std::span<const BarPart> parts, long from,
                        const TextStyle& style) {
  const std::size_t left = part_at(ends, from);
  const std::size_t right = part_at(ends, from + 7);
  if (left == right) return style.paint(parts[left].tone, "█");
  const auto filled = static_cast<std::size_t>(ends[left] - from);
  return style.paint_cell(parts[left].tone, parts[right].tone, kEighthsWide.at(filled));
}

}  // namespace

std::string progress_bar(double fraction, std::size_t width, const TextStyle& style) {
  if (width < 3) return {};
  const std::size_t inner = width - 2;
  const double share = fraction > 0 ? std::min(fraction, 1.0) : 0;
  // Rounded down: the bar is full only when the work is done.
  const auto eighths = static_cast<std::size_t>(share * 8.0 * static_cast<double>(inner));
  std::string fill;
  if (style.utf8) {
    fill = repeat("█", eighths / 8);
    if (eighths % 8 > 0) fill += kEighthsWide.at(eighths % 8);
  } else {
    fill = repeat("#", eighths / 8);
  }
  const std::string rest(inner - columns(fill), ' ');
  return std::string(style.pick("▕", "[")) + style.paint(Tone::accent, fill) + rest +
         std::string(style.pick("▏", "]"));
}

std::string stacked_bar(std::span<const BarPart> parts, std::size_t width, const TextStyle& style) {
  if (!(total_of(parts) > 0)) return {};
  const std::vector<long> ends = ends_in_eighths(parts, width);
  std::string bar;
  for (std::size_t cell = 0; cell < width; ++cell) {
    const long from = static_cast<long>(cell) * 8;
    bar += style.utf8 && style.color ? shared_cell(ends, parts, from, style)
                                     : swatch(parts[part_at(ends, from + 4)], style);
  }
  return bar;
}

std::vector<std::string> legend(std::span<const BarPart> parts, std::size_t width,
                                const TextStyle& style) {
  const double total = total_of(parts);
  std::vector<std::string> lines;
  for (const BarPart& part : parts) {
    const double share = total > 0 ? amount_of(part) / total : 0;
    if (share < kLeastShown) continue;
    const std::string entry = swatch(part, style) + " " + part.name + " " + format_percent(share);
    if (lines.empty() || columns(lines.back()) + 2 + columns(entry) > width) {
      lines.push_back(entry);
    } else {
      lines.back() += "  " + entry;
    }
  }
  return lines;
}

std::string sparkline(std::span<const double> values, const TextStyle& style) {
  double low = INFINITY;
  double high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line += "!";
      continue;
    }
    const double share = high > low ? (value - low) / (high - low) : 0.0;
    const auto level = static_cast<std::size_t>(std::lround(share * 7));
    line += style.utf8 ? kEighthsHigh.at(level) : kAsciiHigh.at(level);
  }
  return line;
}

}  // namespace lockstep::metrics
