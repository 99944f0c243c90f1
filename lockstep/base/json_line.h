// Writes one line of JSON as it goes along, for what is written thousands of times a second; other
// documents are made of nlohmann::ordered_json.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Keys and values come in the order of the line; the caller closes what it opens.
class JsonLine {
 public:
  JsonLine& open_object() { return open('{'); }
  JsonLine& close_object() { return close('}'); }
  JsonLine& open_array() { return open('['); }
  JsonLine& close_array() { return close(']'); }
  JsonLine& key(std::string_view plain);  // printable ASCII without quotes and backslashes
  JsonLine& value(std::string_view text);
  /// The shortest digits that read back as the same double; not finite as null (read as NaN).
  JsonLine& value(double number);
  JsonLine& value(std::same_as<bool> auto flag) { return raw(flag ? "true" : "false"); }
  JsonLine& value(std::int64_t number);
  /// A value that is JSON already.
  JsonLine& raw(std::string_view json);
  template <typename Value>
  JsonLine& member(std::string_view name, const Value& one) {
    return key(name).value(one);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  JsonLine& open(char bracket);
  JsonLine& close(char bracket);
  void separate();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace lockstep
