#include "lockstep/checkpoint/foreign/pickle_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace lockstep::checkpoint {
namespace {

constexpr std::uint32_t kBillion = 1'000'000'000;

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [](std::uint32_t bits) { return 0x80U | (bits & 0x3fU); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0U | code >> 6U);
    put(tail(code));
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    put(tail(code >> 6U));
    put(tail(code));
  } else {
    put(0xf0U | code >> 18U);
    put(tail(code >> 12U));
    put(tail(code >> 6U));
    put(tail(code));
  }
}

/// The character of the escape that begins at line[at], and its length in the line.
std::optional<std::pair<std::uint32_t, std::size_t>> escape_at(std::string_view line,
                                                               std::size_t at) {
  const std::size_t digits = line[at + 1] == 'u' ? 4 : 8;
  if (line.size() - at < 2 + digits) return std::nullopt;
  std::uint32_t code = 0;
  const char* begin = line.data() + at + 2;
  const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (error != std::errc() || end != begin + digits || surrogate || code > 0x10ffff) {
    return std::nullopt;
  }
  return std::pair{code, 2 + digits};
}

/// Magnitude of a two's complement number, and whether it is negative.
std::pair<std::vector<std::uint8_t>, bool> magnitude(std::string_view little_endian) {
  std::vector<std::uint8_t> bytes(little_endian.begin(), little_endian.end());
  const bool negative = !bytes.empty() && bytes.back() >= 0x80;
  if (negative) {
    unsigned carry = 1;
    for (std::uint8_t& byte : bytes) {
      carry += 0xffU - byte;
      byte = static_cast<std::uint8_t>(carry);
      carry >>= 8U;
    }
  }
  return {std::move(bytes), negative};
}

}  // namespace

std::string decimal_of(std::string_view little_endian) {
  auto [bytes, negative] = magnitude(little_endian);
  std::vector<std::uint32_t> billions;  // least first
  while (!bytes.empty()) {
    std::uint64_t rest = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      rest = rest << 8U | bytes[i];
      bytes[i] = static_cast<std::uint8_t>(rest / kBillion);
      rest %= kBillion;
    }
    billions.push_back(static_cast<std::uint32_t>(rest));
    while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
  }
  std::string text = negative ? "-" : "";
  text += std::to_string(billions.empty() ? 0 : billions.back());
  for (std::size_t i = billions.empty() ? 0 : billions.size() - 1; i-- > 0;) {
    const std::string digits = std::to_string(billions[i]);
    text.append(9 - digits.size(), '0').append(digits);
  }
  return text;
}

std::optional<std::int64_t> parse_integer(std::string_view digits) {
  std::int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> parse_real(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<std::string> unescape_unicode(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    const bool escape =
        line[at] == '\\' && at + 1 < line.size() && (line[at + 1] == 'u' || line[at + 1] == 'U');
    if (!escape) {
      append_utf8(text, byte_at(line, at++));
      continue;
    }
    const auto found = escape_at(line, at);
    if (!found) return std::nullopt;
    append_utf8(text, found->first);
    at += found->second;
  }
  return text;
}

}  // namespace lockstep::checkpoint
