#include "lockstep/base/json_fields.h"

#include <limits>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using nlohmann::json;

json parse(std::string_view text) { return json::parse(text, nullptr, /*allow_exceptions=*/false); }

}  // namespace

JsonFields::JsonFields(std::string_view text, JsonSource source)
    : JsonFields(parse(text), std::move(source), "") {
  if (object_.is_discarded()) fail("is not JSON");
  if (!object_.is_object())
    fail(std::string("is a JSON ") + object_.type_name() + ", not an object");
}

JsonFields::JsonFields(json object, JsonSource source, std::string path)
    : object_(std::move(object)), source_(std::move(source)), path_(std::move(path)) {}

void JsonFields::fail(const std::string& what) const {
  throw BadData({source_.code, source_.where, what,
                 "the file is damaged or was written by another version or program"});
}

const json& JsonFields::at(const char* key) const {
  const auto field = object_.find(key);
  if (field == object_.end()) fail("has no field '" + path_ + key + "'");
  return *field;
}

std::int64_t JsonFields::to_integer(const json& value, const char* key) const {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    fail("field '" + path_ + key + "' is out of range");
  }
  if (!value.is_number_integer()) fail("field '" + path_ + key + "' is not an integer");
  return value.get<std::int64_t>();
}

double JsonFields::to_number(const json& value, const char* key) const {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) fail("field '" + path_ + key + "' is not a number");
  return value.get<double>();
}

const json& JsonFields::array(const char* key) const {
  const json& value = at(key);
  if (!value.is_array()) fail("field '" + path_ + key + "' is not an array");
  return value;
}

std::int64_t JsonFields::integer(const char* key) const { return to_integer(at(key), key); }

std::int64_t JsonFields::integer_or(const char* key, std::int64_t missing) const {
  return has(key) ? integer(key) : missing;
}

double JsonFields::number(const char* key) const { return to_number(at(key), key); }

double JsonFields::number_or(const char* key, double missing) const {
  return has(key) ? number(key) : missing;
}

bool JsonFields::flag_or(const char* key, bool missing) const {
  if (!has(key)) return missing;
  if (!at(key).is_boolean()) fail("field '" + path_ + key + "' is not true or false");
  return at(key).get<bool>();
}

std::string JsonFields::text(const char* key) const {
  if (!at(key).is_string()) fail("field '" + path_ + key + "' is not a text");
  return at(key).get<std::string>();
}

JsonFields JsonFields::object(const char* key) const {
  if (!at(key).is_object()) fail("field '" + path_ + key + "' is not an object");
  return {at(key), source_, path_ + key + "."};
}

std::vector<JsonFields> JsonFields::objects(const char* key) const {
  std::vector<JsonFields> values;
  for (const json& value : array(key)) {
    if (!value.is_object()) fail("field '" + path_ + key + "' is not an array of objects");
    values.push_back({value, source_, path_ + key + "."});
  }
  return values;
}

std::vector<std::int64_t> JsonFields::integers(const char* key) const {
  std::vector<std::int64_t> values;
  for (const json& value : array(key)) values.push_back(to_integer(value, key));
  return values;
}

std::vector<double> JsonFields::numbers(const char* key) const {
  std::vector<double> values;
  for (const json& value : array(key)) values.push_back(to_number(value, key));
  return values;
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> values;
  for (const json& value : array(key)) {
    if (!value.is_string()) fail("field '" + path_ + key + "' is not an array of texts");
    values.push_back(value.get<std::string>());
  }
  return values;
}

std::string to_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep
