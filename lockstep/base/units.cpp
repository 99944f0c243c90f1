#include "lockstep/base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

constexpr auto kByteUnits = std::to_array<Unit>({{"B", 1},
                                                 {"", 1},
                                                 {"kB", 1e3},
                                                 {"KB", 1e3},
                                                 {"MB", 1e6},
                                                 {"GB", 1e9},
                                                 {"TB", 1e12},
                                                 {"KiB", 1024.0},
                                                 {"MiB", 1048576.0},
                                                 {"GiB", 1073741824.0},
                                                 {"TiB", 1099511627776.0}});

constexpr auto kTimeUnits = std::to_array<Unit>({{"us", 1e-6},
                                                 {"ms", 1e-3},
                                                 {"s", 1},
                                                 {"m", 60},
                                                 {"min", 60},
                                                 {"h", 3600},
                                                 {"d", 86400},
                                                 {"w", 604800}});

constexpr double kMostBytes = 9.2e18;

template <typename... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Three significant digits; rounding up may give a fourth before the point (999.6 -> "1000").
std::string three_digits(double number) {
  const double size = std::abs(number);
  return print(size < 9.995 ? "%.2f" : size < 99.95 ? "%.1f" : "%.0f", number);
}

template <std::size_t N>
std::string with_prefix(double number, const std::array<const char*, N>& prefixes,
                        const char* separator) {
  std::size_t p = 0;
  while (p + 1 < N && std::abs(number) >= 999.5) {
    number /= 1000;
    ++p;
  }
  return three_digits(number) + separator + prefixes.at(p);
}

/// Takes "<number><blanks><letters>" off the front of `text`.
struct Quantity {
  double number = 0;
  std::string_view unit;
};
std::optional<Quantity> take_quantity(std::string_view& text) {
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (error != std::errc{} || !std::isfinite(quantity.number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const auto letters = [&](bool blank) {
    std::size_t n = 0;
    while (n < text.size() && (text[n] == ' ') == blank && (blank || text[n] > '9')) ++n;
    const std::string_view word = text.substr(0, n);
    text.remove_prefix(n);
    return word;
  };
  (void)letters(true);
  quantity.unit = letters(false);
  (void)letters(true);
  return quantity;
}

template <std::size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
  const auto* row =
      std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return unit.name == name; });
  return row == units.end() ? nullptr : row;
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  if (std::abs(bytes) < 1000) return std::to_string(bytes) + " B";
  static constexpr std::array<const char*, 6> kPrefixes{"B", "kB", "MB", "GB", "TB", "PB"};
  return with_prefix(static_cast<double>(bytes), kPrefixes, " ");
}

std::string format_count(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool is_group = (digits.size() - i) % 3 == 0;
    if (is_group && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return format_count(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string format_short(double number) {
  static constexpr std::array<const char*, 5> kPrefixes{"", "k", "M", "G", "T"};
  return with_prefix(number, kPrefixes, "");
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e11) return "?";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return three_digits(seconds) + " s";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return print("%lld min %02lld s", whole / 60, whole % 60);
  const long long minutes = (whole + 30) / 60;
  if (minutes < 48 * 60) return print("%lld h %02lld min", minutes / 60, minutes % 60);
  const long long hours = (minutes + 30) / 60;
  return print("%lld d %02lld h", hours / 24, hours % 24);
}

std::string format_percent(double fraction, int decimals) {
  return print("%.*f %%", decimals, fraction * 100);
}

std::string format_fixed(double number, int decimals) {
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  return print("%.*f", decimals, number);
}

std::string format_number(double number, int digits) {
  if (!std::isfinite(number)) return format_fixed(number, 0);
  if (number == 0) return "0";
  const double size = std::abs(number);
  if (size < 1e-4 || size >= 1e9) return print("%.*e", digits - 1, number);
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  return print("%.*f", std::max(0, digits - before), number);
}

std::string format_shortest(double number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const auto quantity = take_quantity(text);
  if (!quantity || !text.empty() || quantity->number < 0) return std::nullopt;
  const Unit* unit = find_unit(kByteUnits, quantity->unit);
  if (unit == nullptr || quantity->number * unit->size > kMostBytes) return std::nullopt;
  return std::llround(quantity->number * unit->size);
}

std::optional<double> parse_duration_s(std::string_view text) {
  double seconds = 0;
  bool is_first = true;
  do {
    const auto quantity = take_quantity(text);
    if (!quantity || quantity->number < 0) return std::nullopt;
    const bool is_bare = is_first && text.empty() && quantity->unit.empty();
    const Unit* unit = find_unit(kTimeUnits, is_bare ? "s" : quantity->unit);
    if (unit == nullptr) return std::nullopt;
    seconds += quantity->number * unit->size;
    is_first = false;
  } while (!text.empty());
  return seconds;
}

}  // namespace lockstep
