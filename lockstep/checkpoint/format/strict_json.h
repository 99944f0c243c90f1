// JSON that somebody else wrote, read without benefit of the doubt.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// Parses `text`. \throws BadData (throw_damaged) for invalid JSON or UTF-8, a key given twice in
/// one object, or nesting deeper than `max_depth`. \param where the file, for messages.
[[nodiscard]] nlohmann::json parse_strict_json(std::string_view text, int max_depth,
                                               const std::string& where);

/// One JSON value with its place in the document, for messages: tensors["w"].shape.
class StrictJson {
 public:
  StrictJson(const nlohmann::json& value, std::string path, const std::string& where)
      : value_(value), path_(std::move(path)), where_(where) {}

  /// A field of an object. \throws BadData when it is missing or this is no object.
  [[nodiscard]] StrictJson operator[](const char* key) const;
  [[nodiscard]] std::int64_t natural() const;  // 0 ... 2^63-1
  [[nodiscard]] std::int64_t integer() const;  // -2^63 ... 2^63-1
  [[nodiscard]] double number() const;         // finite
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] std::vector<StrictJson> items() const;
  [[nodiscard]] std::vector<std::int64_t> naturals() const;
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] const nlohmann::json::object_t& object() const;
  [[nodiscard]] const nlohmann::json& raw() const { return value_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json& value_;
  std::string path_;
  const std::string& where_;
};

}  // namespace lockstep::checkpoint
