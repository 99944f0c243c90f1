// A resolved configuration as JSON, its inverse and its hash.
#include <nlohmann/json.hpp>

#include "lockstep/base/sha256.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"

namespace lockstep::config {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Option& option, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  if (option.type == OptionType::word) {
    return std::string(option.words[static_cast<std::size_t>(std::get<std::int64_t>(value))]);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::get<std::array<double, 2>>(value);
}

Raw raw_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return {json.get<bool>(), ""};
    case Json::value_t::number_integer:
      return {json.get<std::int64_t>(), ""};
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) return {json.get<double>(), ""};
      return {json.get<std::int64_t>(), ""};
    case Json::value_t::number_float:
      return {json.get<double>(), ""};
    case Json::value_t::string:
      return {json.get<std::string>(), ""};
    case Json::value_t::array:
      break;
    default:
      return {{}, "an object"};
  }
  std::vector<double> list;
  for (const Json& item : json) {
    if (!item.is_number()) return {{}, "a list"};
    list.push_back(item.get<double>());
  }
  return {std::move(list), ""};
}

Problem wrong(const std::string& where, const std::string& what) {
  return {"LS-1017", where, what, "use config.json as lockstep wrote it"};
}

void read_value(const std::string& key, const Json& json, ParsedConfig& parsed) {
  const Option* option = find_option(key);
  if (option == nullptr) {
    parsed.problems.push_back({"LS-1003", key, "unknown key " + key, suggest_key(key)});
    return;
  }
  if (json.is_null()) {
    if (option->optional) return option->set(parsed.config, Value{});
    parsed.problems.push_back(wrong(key, "is null"));
    return;
  }
  Converted result = convert(*option, raw_of(json));
  if (result.code.empty()) return option->set(parsed.config, result.value);
  parsed.problems.push_back({result.code, key, result.what, result.fix});
}

}  // namespace

std::string to_json_text(const RunConfig& config) {
  Json document = Json::object();
  for (const Option& option : options()) {
    document[std::string(option.section())][std::string(option.name())] =
        json_of(option, option.get(config));
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RunConfig from_json_text(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_object()) throw UsageError({wrong("config.json", "is not a JSON object")});
  ParsedConfig parsed;
  for (const auto& [section, keys] : document.items()) {
    if (!keys.is_object()) {
      parsed.problems.push_back(wrong(section, "is not a section"));
      continue;
    }
    for (const auto& [name, value] : keys.items()) {
      read_value(section + "." + name, value, parsed);
    }
  }
  if (!parsed.problems.empty()) throw UsageError(std::move(parsed.problems));
  return parsed.config;
}

std::string config_hash(const RunConfig& config) { return sha256_hex(to_json_text(config)); }

}  // namespace lockstep::config
