// Small pictures in one line of text: a progress bar, a bar of parts, a curve.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "lockstep/metrics/text_style.h"

namespace lockstep::metrics {

/// A bar of `width` columns, frame included, filled to an eighth of a column.
[[nodiscard]] std::string progress_bar(double fraction, std::size_t width, const TextStyle& style);

/// One part of a whole.
struct BarPart {
  std::string name;
  double amount = 0;  // negative and NaN count as 0
  Tone tone = Tone::plain;
  const char* shade = " ";  // without colours
  char letter = ' ';        // in ASCII
};

/// All parts side by side in `width` columns; empty when nothing has an amount.
[[nodiscard]] std::string stacked_bar(std::span<const BarPart> parts, std::size_t width,
                                      const TextStyle& style);

/// "█ data 1.0 %  █ forward 33.3 %  ...", wrapped at `width` columns: one string a line. Parts
/// below half a per mille are left out.
[[nodiscard]] std::vector<std::string> legend(std::span<const BarPart> parts, std::size_t width,
                                              const TextStyle& style);

/// One column a value, the lowest at the bottom. NaN shows as "!".
[[nodiscard]] std::string sparkline(std::span<const double> values, const TextStyle& style);

}  // namespace lockstep::metrics
