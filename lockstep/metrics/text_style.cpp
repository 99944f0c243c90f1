#include "lockstep/metrics/text_style.h"

#include <array>

namespace lockstep::metrics {
namespace {

// SGR parameters (ECMA-48) by Tone; the phases need a plain colour, whose background is 10 higher.
constexpr std::array<int, 13> kCodes{0, 1, 2, 32, 33, 31, 36, 34, 36, 32, 33, 35, 90};
constexpr int kBackground = 10;
constexpr char kEscape = '\x1b';

int code(Tone tone) { return kCodes.at(static_cast<std::size_t>(tone)); }

std::string wrap(const std::string& parameters, std::string_view text) {
  return "\x1b[" + parameters + "m" + std::string(text) + "\x1b[0m";
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string TextStyle::paint(Tone tone, std::string_view text) const {
  if (!color || tone == Tone::plain || text.empty()) return std::string(text);
  return wrap(std::to_string(code(tone)), text);
}

std::string TextStyle::paint_cell(Tone left, Tone right, std::string_view text) const {
  return wrap(std::to_string(code(left)) + ";" + std::to_string(code(right) + kBackground), text);
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kEscape) {
      while (i < text.size() && text[i] != 'm' && text[i] != 'K') ++i;
    } else if (!is_continuation(text[i])) {
      ++count;
    }
  }
  return count;
}

std::string pad_right(std::string text, std::size_t width) {
  const std::size_t has = columns(text);
  if (has < width) text.append(width - has, ' ');
  return text;
}

std::string pad_left(std::string text, std::size_t width) {
  const std::size_t has = columns(text);
  return has < width ? std::string(width - has, ' ') + text : text;
}

std::string printable(std::string_view text, bool keep_utf8) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80U && !keep_utf8) {
      if (!is_continuation(c)) safe += '?';
    } else {
      const bool is_control = byte < 0x20U || byte == 0x7FU;
      safe += is_control ? (c == '\n' ? '\n' : ' ') : c;
    }
  }
  return safe;
}

std::string repeat(std::string_view text, std::size_t count) {
  std::string many;
  for (std::size_t i = 0; i < count; ++i) many += text;
  return many;
}

}  // namespace lockstep::metrics
