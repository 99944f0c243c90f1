#include "lockstep/checkpoint/names/name_pattern.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMostDigits = 9;
constexpr std::string_view kFromOne = "+1";

/// What stands between two braces.
struct Place {
  std::string_view key;
  std::int64_t first = 0;  // the number that its count begins with
  std::size_t end = 0;     // in the pattern, behind the brace
};

/// \param at of the opening brace.
Place place_at(std::string_view pattern, std::size_t at) {
  const std::size_t close = pattern.find('}', at);
  LOCKSTEP_CHECK(close != std::string_view::npos, "a pattern with an open brace");
  Place place{pattern.substr(at + 1, close - at - 1), 0, close + 1};
  if (place.key.ends_with(kFromOne)) {
    place.key.remove_suffix(kFromOne.size());
    place.first = 1;
  }
  return place;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number that `text` begins with, and takes it off.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::size_t digits = 0;
  std::int64_t number = 0;
  while (digits < text.size() && is_digit(text[digits])) {
    if (digits == kMostDigits) return std::nullopt;
    number = 10 * number + (text[digits++] - '0');
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

}  // namespace

std::optional<Bindings> match_pattern(std::string_view pattern, std::string_view name) {
  Bindings bindings;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '{') {
      const Place place = place_at(pattern, at);
      const std::optional<std::int64_t> number = take_number(name);
      if (!number || *number < place.first) return std::nullopt;
      bindings.push_back({place.key, *number - place.first});
      at = place.end;
    } else {
      if (name.empty() || name.front() != pattern[at++]) return std::nullopt;
      name.remove_prefix(1);
    }
  }
  if (!name.empty()) return std::nullopt;
  return bindings;
}

std::string fill_pattern(std::string_view pattern, const Bindings& bindings) {
  std::string name;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] != '{') {
      name += pattern[at++];
      continue;
    }
    const Place place = place_at(pattern, at);
    const auto bound = std::find_if(bindings.begin(), bindings.end(),
                                    [&](const Bound& b) { return b.key == place.key; });
    LOCKSTEP_CHECK(bound != bindings.end(), "a pattern with a key that its partner lacks");
    name += std::to_string(bound->number + place.first);
    at = place.end;
  }
  return name;
}

}  // namespace lockstep::checkpoint
