#include "lockstep/config/convert.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"

namespace lockstep::config {
namespace {

constexpr std::size_t kLongestText = 4096;

std::string describe_raw(const Raw& raw) {
  switch (raw.data.index()) {
    case 1:
      return "true or false";
    case 2:
      return "a whole number";
    case 3:
      return "a number with a point or exponent";
    case 4:
      return "text";
    case 5: {
      const std::size_t count = std::get<std::vector<double>>(raw.data).size();
      return "a list of " + std::to_string(count) + (count == 1 ? " number" : " numbers");
    }
    default:
      return raw.type_name.empty() ? "something else" : raw.type_name;
  }
}

Converted refuse(const char* code, std::string what, std::string fix) {
  return {{}, code, std::move(what), std::move(fix)};
}

Converted wrong_type(const Option& option, const Raw& raw) {
  std::string fix = "write " + describe_type(option);
  if (option.type == OptionType::text || option.type == OptionType::word) fix += ", in quotes";
  if (option.type == OptionType::number_pair) {
    fix += ", as in " + to_toml_text(option, option.get(RunConfig{}));
  }
  return refuse(
      "LS-1004",
      std::string(option.key) + " takes " + describe_type(option) + ", not " + describe_raw(raw),
      fix);
}

bool inside(const Range& range, double x) {
  const bool above = range.open_minimum ? x > range.minimum : x >= range.minimum;
  const bool below = range.open_maximum ? x < range.maximum : x <= range.maximum;
  return std::isfinite(x) && above && below;
}

/// `use a number from 0 to 1,000,000`: a limit that help leaves out is told to whom it stops.
Converted out_of_range(const Option& option, double x, const std::string& written) {
  std::string fix = "use " + describe_type(option);
  const double most = option.range.maximum;
  if (x > most && std::isfinite(most) && fix.ends_with(" up")) {
    fix.resize(fix.size() - 3);
    fix += " to " + format_count(std::llround(most));
  }
  return refuse("LS-1005", std::string(option.key) + " cannot be " + written, fix);
}

Converted convert_text(const Option& option, const std::string& text) {
  const bool control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control || text.size() > kLongestText) {
    return refuse("LS-1005", std::string(option.key) + " holds control characters or is too long",
                  "use printable text of at most 4096 bytes");
  }
  const bool names_a_folder = option.key == "run.name";
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
  if (names_a_folder && (!plain || text.empty() || text.front() == '.' || text.size() > 100)) {
    return refuse("LS-1005", "run.name cannot be a folder's name",
                  "use letters, digits, '.', '_' and '-', at most 100, not '.' first");
  }
  return {text, "", "", ""};
}

Converted convert_word(const Option& option, const std::string& text) {
  const auto place = std::find(option.words.begin(), option.words.end(), text);
  if (place == option.words.end()) {
    return refuse("LS-1005", std::string(option.key) + " cannot be \"" + text.substr(0, 64) + "\"",
                  did_you_mean(text, option.words, "") +
                      (nearest_name(text, option.words).empty() ? "" : " ") + "it is " +
                      describe_type(option));
  }
  return {static_cast<std::int64_t>(place - option.words.begin()), "", "", ""};
}

/// Whether `raw` is one of the words that a number may also be.
bool is_word_for_number(const Option& option, const Raw& raw) {
  const auto* text = std::get_if<std::string>(&raw.data);
  return text != nullptr &&
         std::find(option.words.begin(), option.words.end(), *text) != option.words.end();
}

Converted convert_integer(const Option& option, const Raw& raw) {
  if (is_word_for_number(option, raw)) {
    return {option.keeps_word ? Value(std::get<std::string>(raw.data)) : Value{}, "", "", ""};
  }
  const auto* number = std::get_if<std::int64_t>(&raw.data);
  if (number == nullptr) {
    Converted result = wrong_type(option, raw);
    const auto* real = std::get_if<double>(&raw.data);
    if (real != nullptr && std::trunc(*real) == *real && std::abs(*real) < 1e15) {
      result.fix = "write " + std::to_string(static_cast<std::int64_t>(*real));
    }
    return result;
  }
  if (!inside(option.range, static_cast<double>(*number))) {
    return out_of_range(option, static_cast<double>(*number), std::to_string(*number));
  }
  return {*number, "", "", ""};
}

Converted convert_number(const Option& option, const Raw& raw) {
  if (is_word_for_number(option, raw)) return {std::monostate{}, "", "", ""};
  double x = 0;
  if (const auto* real = std::get_if<double>(&raw.data)) {
    x = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&raw.data)) {
    x = static_cast<double>(*whole);
  } else {
    return wrong_type(option, raw);
  }
  if (!inside(option.range, x)) return out_of_range(option, x, number_text(x));
  return {x, "", "", ""};
}

Converted convert_pair(const Option& option, const Raw& raw) {
  const auto* list = std::get_if<std::vector<double>>(&raw.data);
  if (list == nullptr || list->size() != 2) return wrong_type(option, raw);
  for (const double x : *list) {
    if (!inside(option.range, x)) return out_of_range(option, x, number_text(x));
  }
  return {std::array<double, 2>{(*list)[0], (*list)[1]}, "", "", ""};
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// What a number without a value in 64 bits is called; empty when `text` is not such a one.
std::string special_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size()) return "";
  const std::string written = " (" + std::string(text.substr(0, 32)) + ")";
  if (error == std::errc::result_out_of_range) return "a number beyond 64 bits" + written;
  return error == std::errc{} && !std::isfinite(number) ? "infinity or nan" + written : "";
}

/// "[0.9, 0.99]" or "0.9,0.99"; empty when it is not a list of numbers.
std::vector<double> read_list(std::string_view text) {
  text = without_blanks(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  std::vector<double> list;
  while (true) {
    const std::size_t comma = text.find(',');
    double x = 0;
    if (!read_number(without_blanks(text.substr(0, comma)), x)) return {};
    list.push_back(x);
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Converted convert(const Option& option, const Raw& raw) {
  const auto* text = std::get_if<std::string>(&raw.data);
  switch (option.type) {
    case OptionType::text:
      return text == nullptr ? wrong_type(option, raw) : convert_text(option, *text);
    case OptionType::word:
      return text == nullptr ? wrong_type(option, raw) : convert_word(option, *text);
    case OptionType::integer:
      return convert_integer(option, raw);
    case OptionType::number:
      return convert_number(option, raw);
    case OptionType::number_pair:
      return convert_pair(option, raw);
    case OptionType::boolean:
      break;
  }
  const auto* yes = std::get_if<bool>(&raw.data);
  if (yes == nullptr) return wrong_type(option, raw);
  return {*yes, "", "", ""};
}

Raw raw_from_text(const Option& option, std::string_view text) {
  if (option.type == OptionType::text || option.type == OptionType::word) {
    return {std::string(without_quotes(text)), ""};
  }
  if (option.type == OptionType::boolean && (text == "true" || text == "false")) {
    return {text == "true", ""};
  }
  if (option.type == OptionType::number_pair) {
    std::vector<double> list = read_list(text);
    const bool is_list = list.size() > 1 || text.find('[') != std::string_view::npos;
    if (!list.empty() && is_list) return {std::move(list), ""};
  }
  std::int64_t whole = 0;
  if (read_integer(text, whole)) return {whole, ""};
  double real = 0;
  if (read_number(text, real)) return {real, ""};
  if (std::string special = special_number(text); !special.empty()) return {{}, std::move(special)};
  return {std::string(without_quotes(text)), ""};
}

bool read_integer(std::string_view text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool read_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() &&
         std::isfinite(number);
}

std::string number_text(double number) { return format_shortest(number); }

}  // namespace lockstep::config
