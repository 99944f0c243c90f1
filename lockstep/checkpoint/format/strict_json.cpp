#include "lockstep/checkpoint/format/strict_json.h"

#include <cmath>
#include <limits>
#include <set>

#include "lockstep/checkpoint/format/damaged.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

/// Watches the parser: the keys of each open object, and how deep it is.
class Guard {
 public:
  Guard(int max_depth, const std::string& where) : max_depth_(max_depth), where_(where) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= max_depth_) throw_damaged(where_, "JSON nested too deep");
      if (keys_.size() < level + 2) keys_.resize(level + 2);
      keys_[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.at(level).insert(key).second) throw_damaged(where_, "key \"" + key + "\" twice");
    }
    return true;
  }

 private:
  int max_depth_;
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_strict_json(std::string_view text, int max_depth, const std::string& where) {
  // The library takes a zero byte for the end of the text.
  const std::size_t zero = text.find('\0');
  if (zero != text.npos) throw_damaged(where, "not JSON: zero at byte " + std::to_string(zero));
  try {
    return json::parse(text, Guard(max_depth, where));
  } catch (const json::parse_error& error) {
    // The library's own message quotes the text, which need not be printable.
    throw_damaged(where, "not valid JSON at byte " + std::to_string(error.byte));
  } catch (const json::out_of_range&) {
    throw_damaged(where, "a number out of range");
  }
}

StrictJson StrictJson::operator[](const char* key) const {
  const auto& fields = object();
  const auto found = fields.find(key);
  if (found == fields.end()) fail(std::string("\"") + key + "\" is missing");
  return {found->second, path_.empty() ? key : path_ + "." + key, where_};
}

std::int64_t StrictJson::integer() const {
  const bool fits = value_.is_number_integer() &&
                    (!value_.is_number_unsigned() ||
                     value_.get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) fail("not a whole number within 64 bits");
  return value_.get<std::int64_t>();
}

std::int64_t StrictJson::natural() const {
  const std::int64_t number = integer();
  if (number < 0) fail("negative");
  return number;
}

double StrictJson::number() const {
  if (!value_.is_number() || !std::isfinite(value_.get<double>())) fail("not a number");
  return value_.get<double>();
}

const std::string& StrictJson::text() const {
  if (!value_.is_string()) fail("not a text");
  return value_.get_ref<const std::string&>();
}

std::vector<StrictJson> StrictJson::items() const {
  if (!value_.is_array()) fail("not a list");
  std::vector<StrictJson> items;
  items.reserve(value_.size());
  for (const json& item : value_) {
    items.emplace_back(item, path_ + "[" + std::to_string(items.size()) + "]", where_);
  }
  return items;
}

std::vector<std::int64_t> StrictJson::naturals() const {
  std::vector<std::int64_t> numbers;
  for (const StrictJson& item : items()) numbers.push_back(item.natural());
  return numbers;
}

std::vector<std::string> StrictJson::texts() const {
  std::vector<std::string> texts;
  for (const StrictJson& item : items()) texts.push_back(item.text());
  return texts;
}

const json::object_t& StrictJson::object() const {
  if (!value_.is_object()) fail("not an object");
  return value_.get_ref<const json::object_t&>();
}

void StrictJson::fail(const std::string& what) const {
  throw_damaged(where_, path_.empty() ? what : path_ + ": " + what);
}

}  // namespace lockstep::checkpoint
