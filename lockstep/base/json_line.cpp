#include "lockstep/base/json_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr std::size_t kLongestNumber = 32;

template <typename Number>
void append_number(std::string& text, Number number) {
  std::array<char, kLongestNumber> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
  });
}

}  // namespace

JsonLine& JsonLine::key(std::string_view plain) {
  separate();
  text_ += '"';
  text_ += plain;
  text_ += "\":";
  needs_comma_ = false;
  return *this;
}

JsonLine& JsonLine::value(std::string_view text) {
  if (!is_plain(text)) {
    using nlohmann::json;
    return raw(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  separate();
  text_ += '"';
  text_ += text;
  text_ += '"';
  return *this;
}

JsonLine& JsonLine::value(double number) {
  if (!std::isfinite(number)) return raw("null");
  separate();
  append_number(text_, number);
  return *this;
}

JsonLine& JsonLine::value(std::int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

JsonLine& JsonLine::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonLine& JsonLine::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonLine& JsonLine::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

void JsonLine::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

}  // namespace lockstep
