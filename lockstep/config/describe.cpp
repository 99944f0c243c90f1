// What the registry says about a key, for people: help KEY, docs/config.md, suggestions.
#include <algorithm>
#include <cmath>

#include "lockstep/base/nearest.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/registry.h"

namespace lockstep::config {
namespace {

std::string either(std::span<const std::string_view> words, std::string_view quote) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += std::string(quote) + std::string(words[i]) + std::string(quote);
  }
  return text;
}

/// Words that may stand in place of a number.
std::string or_word(const Option& option) {
  return option.words.empty() ? "" : either(option.words, "\"") + " or ";
}

std::string describe_range(const Range& range) {
  const bool low = std::isfinite(range.minimum);
  const bool high = std::isfinite(range.maximum) && range.maximum < 1e5;
  std::string text;
  if (low) text += (range.open_minimum ? " above " : " from ") + number_text(range.minimum);
  if (high) {
    if (range.open_minimum) text += " and";
    text += (range.open_maximum ? " below " : (low && !range.open_minimum ? " to " : " up to ")) +
            number_text(range.maximum);
  } else if (low && !range.open_minimum) {
    text += " up";
  }
  return text;
}

std::string row_of(const Option& option) {
  const RunConfig defaults;
  std::string text = "| `" + std::string(option.name()) + "` | " + describe_type(option) + " | `" +
                     to_toml_text(option, option.get(defaults)) + "` | " + std::string(option.help);
  const std::string readers = describe_readers(option);
  if (!readers.empty()) text += ". Read when " + readers;
  text += ".";
  if (!option.explain.empty()) text += " " + std::string(option.explain);
  return text + " |\n";
}

}  // namespace

std::string describe_type(const Option& option) {
  switch (option.type) {
    case OptionType::text:
      return "text";
    case OptionType::boolean:
      return "true or false";
    case OptionType::word:
      return either(option.words, "");
    case OptionType::integer:
      return or_word(option) + "a whole number" + describe_range(option.range);
    case OptionType::number:
      return or_word(option) + "a number" + describe_range(option.range);
    case OptionType::number_pair:
      break;
  }
  return "a list of two numbers" + describe_range(option.range);
}

std::string to_toml_text(const Option& option, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "unset";
  if (option.type == OptionType::word) {
    const auto place = static_cast<std::size_t>(std::get<std::int64_t>(value));
    return "\"" + std::string(option.words[place]) + "\"";
  }
  if (const auto* text = std::get_if<std::string>(&value)) return "\"" + *text + "\"";
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return number_text(*real);
  const auto& pair = std::get<std::array<double, 2>>(value);
  return "[" + number_text(pair[0]) + ", " + number_text(pair[1]) + "]";
}

std::string_view word_of(const Option& option, const RunConfig& config) {
  return option.words[static_cast<std::size_t>(std::get<std::int64_t>(option.get(config)))];
}

double number_of(const Option& option, const RunConfig& config) {
  const Value value = option.get(config);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

bool is_read(const Option& option, const RunConfig& config) {
  const ReadWhen& when = option.read_when;
  if (when.key.empty()) return true;
  const Option& choice = *find_option(when.key);
  if (when.words.empty()) return number_of(choice, config) > when.above;
  const auto& words = when.words;
  return std::find(words.begin(), words.end(), word_of(choice, config)) != words.end();
}

std::string describe_readers(const Option& option) {
  const ReadWhen& when = option.read_when;
  if (when.key.empty()) return "";
  if (when.words.empty()) return std::string(when.key) + " above " + number_text(when.above);
  return std::string(when.key) + " = " + either(when.words, "\"");
}

std::string suggest_key(std::string_view key) {
  const std::string_view name = key.substr(key.find('.') + 1);
  std::vector<std::string_view> keys;
  for (const Option& option : options()) {
    if (option.name() == name) return "did you mean " + std::string(option.key) + "?";
    keys.push_back(option.key);
  }
  const std::string_view section = key.substr(0, key.find('.'));
  std::vector<std::string_view> names;
  for (const Option& option : options()) {
    if (option.section() == section) names.push_back(option.name());
  }
  const std::string near = nearest_name(name, names);
  if (!near.empty()) return "did you mean " + std::string(section) + "." + near + "?";
  return did_you_mean(key, keys, "`lockstep help --markdown config` lists all keys");
}

std::string explain_option(const Option& option) {
  const RunConfig defaults;
  std::string text = std::string(option.key) + ": " + std::string(option.help) + "\n\n";
  text += "  takes    " + describe_type(option) + "\n";
  text += "  default  " + to_toml_text(option, option.get(defaults)) + "\n";
  const std::string readers = describe_readers(option);
  if (!readers.empty()) text += "  read     when " + readers + "\n";
  if (!option.explain.empty()) text += "\n" + std::string(option.explain) + "\n";
  return text;
}

std::string config_markdown() {
  std::string text =
      "# Configuration keys\n\n"
      "Written by `lockstep help --markdown config`; a test holds it equal to the program.\n\n"
      "A run is described by a TOML file; `--set section.key=value` overrides a key of it, and "
      "`--set section.key=` unsets one. A family, format, optimizer or schedule chosen by --set "
      "drops "
      "the file's keys that it does not read, with a note. Else a key "
      "that is unknown, or that nothing in the run reads, is an error. `lockstep help KEY` "
      "explains "
      "one key.\n";
  for (const Section& section : sections()) {
    text += "\n## [" + std::string(section.name) + "]: " + std::string(section.help) + "\n\n";
    text += "| key | takes | default | meaning |\n|---|---|---|---|\n";
    for (const Option& option : options()) {
      if (option.section() == section.name) text += row_of(option);
    }
  }
  return text;
}

}  // namespace lockstep::config
