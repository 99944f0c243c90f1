// The option table as a JSON Schema (draft 7), by which editors complete and check a run.toml.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/config/registry.h"

namespace lockstep::config {
namespace {

using Json = nlohmann::ordered_json;

/// 5, not 5.0.
Json number_json(double number) {
  if (std::trunc(number) == number) return static_cast<std::int64_t>(number);
  return number;
}

void add_limits(const Option& option, Json& schema) {
  const Range& range = option.range;
  if (std::isfinite(range.minimum)) {
    schema[range.open_minimum ? "exclusiveMinimum" : "minimum"] = number_json(range.minimum);
  }
  if (std::isfinite(range.maximum)) {
    schema[range.open_maximum ? "exclusiveMaximum" : "maximum"] = number_json(range.maximum);
  }
}

Json number_schema(const Option& option) {
  Json schema{{"type", option.type == OptionType::integer ? "integer" : "number"}};
  add_limits(option, schema);
  if (option.words.empty()) return schema;
  return {{"anyOf", {Json{{"enum", option.words}}, schema}}};
}

Json type_schema(const Option& option) {
  switch (option.type) {
    case OptionType::text:
      if (option.key != "run.name") return {{"type", "string"}};
      return {{"type", "string"}, {"pattern", "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"}};
    case OptionType::boolean:
      return {{"type", "boolean"}};
    case OptionType::word:
      return {{"type", "string"}, {"enum", option.words}};
    case OptionType::number_pair:
      return {
          {"type", "array"}, {"items", number_schema(option)}, {"minItems", 2}, {"maxItems", 2}};
    case OptionType::integer:
    case OptionType::number:
      break;
  }
  return number_schema(option);
}

/// What an unset key amounts to; null where no value says it.
Json default_json(const Option& option) {
  const Value value = option.get(RunConfig{});
  if (option.type == OptionType::word) return std::string(word_of(option, RunConfig{}));
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return number_json(*real);
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) return *pair;
  if (option.words.empty() || option.keeps_word) return nullptr;
  return std::string(option.words.front());
}

std::string description(const Option& option) {
  std::string text = std::string(option.help) + ".";
  if (!option.explain.empty()) text += " " + std::string(option.explain);
  const std::string readers = describe_readers(option);
  return readers.empty() ? text : text + " Read when " + readers + ".";
}

Json option_schema(const Option& option) {
  Json schema{{"description", description(option)}};
  schema.update(type_schema(option));
  const Json value = default_json(option);
  if (!value.is_null()) schema["default"] = value;
  return schema;
}

Json section_schema(const Section& section) {
  Json keys = Json::object();
  for (const Option& option : options()) {
    if (option.section() == section.name) keys[std::string(option.name())] = option_schema(option);
  }
  return {{"description", section.help},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties", keys}};
}

/// Holds where `choice` is `word`. The default also holds where nothing is said: "properties" asks
/// nothing of a key that is not there.
Json chosen(const Option& choice, std::string_view word) {
  const std::string section(choice.section());
  const std::string name(choice.name());
  Json keys{{"properties", {{name, {{"const", word}}}}}};
  Json schema{{"properties", {{section, keys}}}};
  if (word == word_of(choice, RunConfig{})) return schema;
  schema["properties"][section]["required"] = Json::array({name});
  schema["required"] = Json::array({section});
  return schema;
}

/// Holds where the number of `choice` is not above `limit`, unset keys as above.
Json not_above(const Option& choice, double limit) {
  const std::string section(choice.section());
  const std::string name(choice.name());
  Json keys{{"properties", {{name, {{"maximum", number_json(limit)}}}}}};
  Json schema{{"properties", {{section, keys}}}};
  if (number_of(choice, RunConfig{}) <= limit) return schema;
  schema["properties"][section]["required"] = Json::array({name});
  schema["required"] = Json::array({section});
  return schema;
}

/// No key that is not read when `choice` is `word`; null where all are.
Json only_read_keys(const Option& choice, std::string_view word) {
  Json sections;
  for (const Option& option : options()) {
    const auto& words = option.read_when.words;
    if (option.read_when.key != choice.key) continue;
    if (std::find(words.begin(), words.end(), word) != words.end()) continue;
    sections[std::string(option.section())]["properties"][std::string(option.name())] = false;
  }
  return sections.is_null() ? Json() : Json{{"properties", sections}};
}

/// Of a key that needs a number above another.
Json number_condition(const Option& option) {
  const Json keys{{"properties", {{std::string(option.name()), false}}}};
  return {{"if", not_above(*find_option(option.read_when.key), option.read_when.above)},
          {"then", {{"properties", {{std::string(option.section()), keys}}}}}};
}

/// A model that is described has no other keys.
Json described_condition() {
  Json others;
  for (const Option& option : options()) {
    if (option.section() == "model" && option.name() != "config") {
      others[std::string(option.name())] = false;
    }
  }
  const Json is_described{{"properties", {{"model", {{"required", {"config"}}}}}},
                          {"required", {"model"}}};
  return {{"if", is_described}, {"then", {{"properties", {{"model", {{"properties", others}}}}}}}};
}

Json conditions() {
  Json all = Json::array({described_condition()});
  for (const Option& choice : options()) {
    if (choice.type != OptionType::word) continue;
    for (const std::string_view word : choice.words) {
      const Json then = only_read_keys(choice, word);
      if (!then.is_null()) all.push_back({{"if", chosen(choice, word)}, {"then", then}});
    }
  }
  for (const Option& option : options()) {
    const ReadWhen& when = option.read_when;
    if (!when.key.empty() && when.words.empty()) all.push_back(number_condition(option));
  }
  return all;
}

}  // namespace

std::string json_schema() {
  Json sections_json = Json::object();
  for (const Section& section : sections()) {
    sections_json[std::string(section.name)] = section_schema(section);
  }
  const Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                    {"title", "run.toml of lockstep"},
                    {"description", "What one run should do: `lockstep train RUN.toml`."},
                    {"type", "object"},
                    {"additionalProperties", false},
                    {"properties", sections_json},
                    {"allOf", conditions()}};
  return schema.dump(2) + "\n";
}

}  // namespace lockstep::config
