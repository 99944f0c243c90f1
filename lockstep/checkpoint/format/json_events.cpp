#include "lockstep/checkpoint/format/json_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/checkpoint/format/damaged.h"

namespace lockstep::checkpoint {

using nlohmann::json;
using Type = JsonScalar::Type;

/// What the library calls. Every event goes on; what is wrong throws.
struct JsonEvents::Adapter {
  JsonEvents& to;

  bool scalar(const JsonScalar& value) const {
    to.on_scalar(value);
    return true;
  }
  [[nodiscard]] bool null() const { return scalar({}); }
  [[nodiscard]] bool boolean(bool value) const {
    return scalar({Type::boolean, value ? 1ULL : 0ULL});
  }
  [[nodiscard]] bool number_integer(std::int64_t value) const {
    return scalar({Type::negative, 0, static_cast<double>(value)});
  }
  [[nodiscard]] bool number_unsigned(std::uint64_t value) const {
    return scalar({Type::natural, value, static_cast<double>(value)});
  }
  bool number_float(double value, const std::string&) const {
    return scalar({Type::real, 0, value});
  }
  bool string(std::string& text) const { return scalar({Type::text, 0, 0, &text}); }
  bool binary(json::binary_t&) const { return scalar({}); }  // not in JSON
  bool key(std::string& text) const {
    to.key(text);
    return true;
  }
  [[nodiscard]] bool start_object(std::size_t) const {
    to.open(true);
    return true;
  }
  [[nodiscard]] bool start_array(std::size_t) const {
    to.open(false);
    return true;
  }
  [[nodiscard]] bool end_object() const {
    to.close();
    return true;
  }
  [[nodiscard]] bool end_array() const { return end_object(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) const {
    // The library's own message quotes the text, which need not be printable.
    constexpr int kOutOfRange = 406;
    throw_damaged(to.where_, error.id == kOutOfRange
                                 ? "a number out of range"
                                 : "not valid JSON at byte " + std::to_string(position));
  }
};

void JsonEvents::read(std::string_view text) {
  // The library takes a zero byte for the end of the text.
  const std::size_t zero = text.find('\0');
  if (zero != text.npos) throw_damaged(where_, "not JSON: zero at byte " + std::to_string(zero));
  Adapter adapter{*this};
  (void)json::sax_parse(text, &adapter);
}

void JsonEvents::open(bool is_object) {
  if (level_ >= max_depth_) throw_damaged(where_, "JSON nested too deep");
  ++level_;
  const auto level = static_cast<std::size_t>(level_);
  if (keys_.size() <= level) keys_.resize(level + 1);
  keys_[level].clear();
  on_open(is_object);
}

void JsonEvents::close() {
  on_close();
  --level_;
}

void JsonEvents::key(const std::string& key) {
  if (are_keys_compared() && !keys_[static_cast<std::size_t>(level_)].insert(key).second) {
    throw_damaged(where_, "key \"" + key + "\" twice");
  }
  on_key(key);
}

const std::string* first_twice(std::vector<const std::string*> names) {
  std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto twice = std::adjacent_find(names.begin(), names.end(),
                                        [](const auto* a, const auto* b) { return *a == *b; });
  return twice == names.end() ? nullptr : *twice;
}

}  // namespace lockstep::checkpoint
