// What a terminal can show: colours and characters, and text measured in columns.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::metrics {

/// What a piece of text means; the colour follows from it. The phases of a step have one each.
enum class Tone : std::uint8_t {
  plain,
  strong,
  faint,
  good,
  warning,
  bad,
  accent,
  data,
  forward,
  backward,
  sync,
  optimizer,
  other,
};

/// Colours are the terminal's own sixteen, so that they fit light and dark themes.
struct TextStyle {
  bool color = false;
  bool utf8 = true;

  /// `text` in the colour of `tone`, or as it is without colours.
  [[nodiscard]] std::string paint(Tone tone, std::string_view text) const;
  /// Foreground and background at once, for a cell that two parts of a bar share.
  [[nodiscard]] std::string paint_cell(Tone left, Tone right, std::string_view text) const;
  [[nodiscard]] std::string_view pick(std::string_view utf8_text,
                                      std::string_view ascii_text) const {
    return utf8 ? utf8_text : ascii_text;
  }
};

/// Columns that `text` takes: escape sequences take none, every other code point one.
[[nodiscard]] std::size_t columns(std::string_view text);

/// `text` with blanks after (before) it up to `width` columns.
[[nodiscard]] std::string pad_right(std::string text, std::size_t width);
[[nodiscard]] std::string pad_left(std::string text, std::size_t width);

/// Text from elsewhere, safe to print: no control characters, and "?" for what is not ASCII unless
/// `keep_utf8`.
[[nodiscard]] std::string printable(std::string_view text, bool keep_utf8);

/// `text` repeated `count` times.
[[nodiscard]] std::string repeat(std::string_view text, std::size_t count);

}  // namespace lockstep::metrics
