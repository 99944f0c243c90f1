#include "lockstep/model/stats/config_keys.h"

#include <limits>
#include <utility>

namespace lockstep::model {
namespace {

using nlohmann::json;

const json& nothing() {
  static const json object = json::object();
  return object;
}

std::string short_number(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

ConfigKeys::ConfigKeys(std::string_view text, std::string where)
    : where_(std::move(where)),
      object_(json::parse(text, nullptr, /*allow_exceptions=*/false)),
      current_(&object_) {
  if (object_.is_object()) return;
  const std::string what =
      object_.is_discarded() ? "is not JSON"
                             : std::string("is a JSON ") + object_.type_name() + ", not an object";
  throw UsageError({{"LS-6022", where_, what, "give the config.json of a Hugging Face model"}});
}

const json* ConfigKeys::find(Names names) const {
  for (const char* name : names) {
    const auto found = current_->find(name);
    if (found != current_->end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

bool ConfigKeys::has(Names names) const { return find(names) != nullptr; }

std::int64_t ConfigKeys::entries(Names names) const {
  const json* value = find(names);
  const bool counts = value != nullptr && value->is_structured();
  return counts ? static_cast<std::int64_t>(value->size()) : 0;
}

/// "n_embd or hidden_size"
std::string ConfigKeys::spelt(Names names) const {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : " or ") + path_ + name;
  return text;
}

void ConfigKeys::fail(const std::string& code, std::string what, std::string fix) {
  problems_.push_back({code, where_, std::move(what), std::move(fix)});
}

void ConfigKeys::missing(Names names) {
  fail("LS-6024", "has no key " + spelt(names), "add it; without it the model is not known");
}

void ConfigKeys::wrong_type(Names names, const char* wanted) {
  fail("LS-6024", spelt(names) + " is " + find(names)->type_name() + ", not " + wanted,
       std::string("give ") + wanted);
}

void ConfigKeys::not_given(Names names, const std::string& taken) {
  not_given_.push_back(path_ + *names.begin() + " " + taken);
}

std::int64_t ConfigKeys::as_integer(const json& value, Names names) {
  constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > kMost);
  if (fits) return value.get<std::int64_t>();
  fail("LS-6024", spelt(names) + " is " + value.type_name() + ", not a whole number",
       "give a whole number");
  return 0;
}

std::int64_t ConfigKeys::required(Names names) {
  if (const json* value = find(names)) return as_integer(*value, names);
  missing(names);
  return 0;
}

std::string ConfigKeys::required_text(Names names) {
  const json* value = find(names);
  if (value == nullptr) {
    missing(names);
    return {};
  }
  if (value->is_string()) return value->get<std::string>();
  wrong_type(names, "a text");
  return {};
}

std::vector<std::int64_t> ConfigKeys::required_integers(Names names) {
  const json* value = find(names);
  std::vector<std::int64_t> numbers;
  if (value == nullptr) {
    missing(names);
  } else if (!value->is_array()) {
    wrong_type(names, "a list of whole numbers");
  } else {
    for (const json& entry : *value) numbers.push_back(as_integer(entry, names));
  }
  return numbers;
}

std::int64_t ConfigKeys::integer_or(Names names, std::int64_t missing) {
  if (const json* value = find(names)) return as_integer(*value, names);
  not_given(names, std::to_string(missing));
  return missing;
}

double ConfigKeys::share_or(Names names, double missing) {
  const json* value = find(names);
  if (value == nullptr) {
    not_given(names, short_number(missing));
    return missing;
  }
  if (value->is_number()) return value->get<double>();
  wrong_type(names, "a number");
  return missing;
}

bool ConfigKeys::flag_or(Names names, bool missing) {
  const json* value = find(names);
  if (value == nullptr) {
    not_given(names, missing ? "true" : "false");
    return missing;
  }
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(names, "true or false");
  return missing;
}

std::string ConfigKeys::text_or(Names names, std::string_view missing) {
  const json* value = find(names);
  if (value == nullptr) return std::string(missing);
  if (value->is_string()) return value->get<std::string>();
  wrong_type(names, "a text");
  return std::string(missing);
}

void ConfigKeys::enter(const char* key) {
  const auto found = object_.find(key);
  const bool is_there = found != object_.end() && !found->is_null();
  if (is_there && !found->is_object()) wrong_type({key}, "an object");
  current_ = is_there && found->is_object() ? &*found : &nothing();
  path_ = std::string(key) + ".";
}

void ConfigKeys::leave() {
  current_ = &object_;
  path_.clear();
}

void ConfigKeys::assume(std::string sentence) { assumed_.push_back(std::move(sentence)); }

std::vector<std::string> ConfigKeys::assumptions() const {
  std::vector<std::string> all;
  if (!not_given_.empty()) {
    std::string sentence = where_ + " does not say, so as transformers has it: ";
    for (std::size_t i = 0; i < not_given_.size(); ++i) {
      sentence += (i > 0 ? ", " : "") + not_given_[i];
    }
    all.push_back(std::move(sentence));
  }
  all.insert(all.end(), assumed_.begin(), assumed_.end());
  return all;
}

}  // namespace lockstep::model
