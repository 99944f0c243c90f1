// The schema is held against the parser: what one takes the other takes, key by key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "lockstep/config/convert.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"
#include "lockstep/config/toml_reader.h"

namespace lockstep::config {
namespace {

using Json = nlohmann::json;

const Json& schema() {
  static const Json parsed = Json::parse(json_schema());
  return parsed;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  EXPECT_EQ(type, "number");
  return value.is_number();
}

bool takes(const Json& schema, const Json& value);

bool takes_members(const Json& schema, const Json& value) {
  for (const auto& [name, member] : value.items()) {
    const auto known = schema.value("properties", Json::object());
    if (known.contains(name) && !takes(known[name], member)) return false;
    if (!known.contains(name) && !schema.value("additionalProperties", true)) return false;
  }
  for (const auto& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  return true;
}

bool takes_number(const Json& schema, double x) {
  return !(schema.contains("minimum") && x < schema["minimum"]) &&
         !(schema.contains("maximum") && x > schema["maximum"]) &&
         !(schema.contains("exclusiveMinimum") && x <= schema["exclusiveMinimum"]) &&
         !(schema.contains("exclusiveMaximum") && x >= schema["exclusiveMaximum"]);
}

bool takes_items(const Json& schema, const Json& value) {
  const auto count = value.size();
  if (count < schema.value("minItems", std::size_t{0})) return false;
  if (count > schema.value("maxItems", count)) return false;
  return std::all_of(value.begin(), value.end(), [&](const Json& item) {
    return takes(schema.value("items", Json(true)), item);
  });
}

/// A validator for the keywords of draft 7 that stand in the schema: TheKeywordsAreThoseThatAre...
bool takes(const Json& schema, const Json& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto each = [&](const char* keyword) { return schema.value(keyword, Json::array()); };
  const auto is_taken = [&](const Json& part) { return takes(part, value); };
  if (schema.contains("type") && !is_of_type(value, schema["type"])) return false;
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return false;
  }
  if (schema.contains("pattern") && value.is_string() &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>()))) {
    return false;
  }
  if (value.is_number() && !takes_number(schema, value)) return false;
  if (value.is_array() && !takes_items(schema, value)) return false;
  if (value.is_object() && !takes_members(schema, value)) return false;
  if (!std::ranges::all_of(each("allOf"), is_taken)) return false;
  if (schema.contains("anyOf") && !std::ranges::any_of(each("anyOf"), is_taken)) return false;
  return !schema.contains("if") || !is_taken(schema["if"]) || is_taken(schema["then"]);
}

Json to_json(const Raw& raw) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return Json::object();
        } else {
          return value;
        }
      },
      raw.data);
}

/// TOML as an editor sees it.
Json to_json(std::string_view toml) {
  Json document = Json::object();
  for (const Entry& entry : read_toml(toml).entries) {
    Json& section = document[entry.section];
    if (section.is_null()) section = Json::object();
    if (!entry.name.empty()) section[entry.name] = to_json(entry.value);
  }
  return document;
}

bool parser_takes(const std::string& toml) { return parse_run_config(toml, "").problems.empty(); }

std::string line(const Option& option, const std::string& value) {
  return "[" + std::string(option.section()) + "]\n" + std::string(option.name()) + " = " + value +
         "\n";
}

/// Values of every kind, and those at and beside the ends of the option's range.
std::vector<std::string> values_for(const Option& option) {
  std::vector<std::string> values{"true",       "\"nothing of this name\"",
                                  "-1",         "0",
                                  "1",          "0.5",
                                  "[0.5, 0.5]", "[1]",
                                  "2",          "[0.1, 1.0]",
                                  "\"dynamic\""};
  for (const std::string_view word : option.words)
    values.push_back("\"" + std::string(word) + "\"");
  for (const double end : {option.range.minimum, option.range.maximum}) {
    if (!std::isfinite(end)) continue;
    for (const double x : {end - 1, end, end + 1}) {
      values.push_back(std::to_string(static_cast<std::int64_t>(x)));
      values.push_back(std::to_string(x));  // "5.000000"
    }
  }
  return values;
}

/// The lines of both in one document: TOML takes a section once.
std::string merged(const std::string& a, const std::string& b) {
  const std::string head = a.substr(0, a.find('\n') + 1);
  const auto at = a.empty() ? std::string::npos : b.find(head);
  return at == std::string::npos ? a + b : b.substr(0, at) + a + b.substr(at + head.size());
}

/// A value of the choice with which `option` is read, or one with which it is not.
std::string value_of_choice(const Option& option, bool reads) {
  const ReadWhen& when = option.read_when;
  if (!when.words.empty()) {
    const auto& all = find_option(when.key)->words;
    for (const std::string_view word : all) {
      const bool does = std::ranges::find(when.words, word) != when.words.end();
      if (does == reads) return "\"" + std::string(word) + "\"";
    }
  }
  if (!reads) return std::to_string(static_cast<std::int64_t>(when.above));
  const bool below_one = find_option(when.key)->range.maximum <= 1;
  return below_one ? "0.5" : std::to_string(static_cast<std::int64_t>(when.above) + 1);
}

/// What makes `option` be read, and what makes that be read.
std::string chooser(const Option& option) {
  // What depends on several keys the parser alone sees.
  if (option.key == "run.eval_every") return "[data]\neval_samples = 8\n";
  if (option.read_when.key.empty()) return "";
  const Option& choice = *find_option(option.read_when.key);
  return merged(chooser(choice), line(choice, value_of_choice(option, true)));
}

TEST(Schema, TakesOfEveryKeyWhatTheParserTakes) {
  std::size_t taken = 0;
  for (const Option& option : options()) {
    for (const std::string& value : values_for(option)) {
      const std::string toml = merged(chooser(option), line(option, value));
      const bool is_taken = takes(schema(), to_json(toml));
      EXPECT_EQ(is_taken, parser_takes(toml)) << toml;
      taken += is_taken ? 1U : 0U;
    }
  }
  EXPECT_GT(taken, 2 * options().size());
}

TEST(Schema, RefusesAKeyThatTheChoiceDoesNotRead) {
  for (const Option& option : options()) {
    if (option.read_when.key.empty()) continue;
    const Option& choice = *find_option(option.read_when.key);
    std::string value = to_toml_text(option, option.get(RunConfig{}));
    if (value == "unset") value = "1";
    EXPECT_EQ(takes(schema(), to_json(line(option, value))), parser_takes(line(option, value)))
        << option.key << " with the default of " << choice.key;
    std::vector<std::string> choices{value_of_choice(option, true), value_of_choice(option, false)};
    for (const std::string_view word : choice.words) {
      choices.push_back("\"" + std::string(word) + "\"");
    }
    for (const std::string& chosen : choices) {
      const std::string toml = merged(line(choice, chosen), line(option, value));
      EXPECT_EQ(takes(schema(), to_json(toml)), parser_takes(toml)) << toml;
    }
  }
}

TEST(Schema, RefusesWhatStandsNowhere) {
  EXPECT_TRUE(takes(schema(), to_json("")));
  EXPECT_FALSE(takes(schema(), to_json("[optimizer]\nmomentun = 0.9\n")));
  EXPECT_FALSE(takes(schema(), to_json("[optimiser]\nlr = 0.9\n")));
}

TEST(Schema, TakesEveryExample) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(LOCKSTEP_SOURCE_DIR) + "/examples")) {
    std::ifstream in(entry.path() / "run.toml");
    if (!in) continue;
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_TRUE(takes(schema(), to_json(text.str()))) << entry.path();
    ++examples;
  }
  EXPECT_GE(examples, 4);
}

void collect_keywords(const Json& schema, std::set<std::string>& keywords) {
  if (!schema.is_object()) return;
  for (const auto& [keyword, value] : schema.items()) {
    keywords.insert(keyword);
    if (keyword == "properties") {
      for (const auto& [name, member] : value.items()) collect_keywords(member, keywords);
    } else if (value.is_array()) {
      for (const Json& part : value) collect_keywords(part, keywords);
    } else if (keyword != "default" && keyword != "const") {
      collect_keywords(value, keywords);
    }
  }
}

TEST(Schema, ItsKeywordsAreThoseThatThisTestKnows) {
  std::set<std::string> keywords;
  collect_keywords(schema(), keywords);
  const std::set<std::string> known{"$schema",
                                    "title",
                                    "description",
                                    "default",
                                    "type",
                                    "enum",
                                    "const",
                                    "allOf",
                                    "anyOf",
                                    "if",
                                    "then",
                                    "properties",
                                    "required",
                                    "items",
                                    "minItems",
                                    "pattern",
                                    "minimum",
                                    "additionalProperties",
                                    "maxItems",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum"};
  EXPECT_THAT(keywords, testing::IsSubsetOf(known));
  EXPECT_EQ(schema()["$schema"], "http://json-schema.org/draft-07/schema#");
}

TEST(Schema, SaysWhatAKeyMeansAndWhatItIsWhenUnset) {
  const Json& keys = schema()["properties"];
  EXPECT_EQ(keys["optimizer"]["properties"]["betas"]["default"], (Json{0.9, 0.999}));
  EXPECT_EQ(keys["parallel"]["properties"]["data"]["default"], "auto");
  EXPECT_FALSE(keys["batch"]["properties"]["micro_batch"].contains("default"));
  EXPECT_THAT(keys["schedule"]["properties"]["final_lr_fraction"]["description"].get<std::string>(),
              testing::HasSubstr("Read when schedule.name = \"linear\" or \"cosine\"."));
}

}  // namespace
}  // namespace lockstep::config
