// Reading a JSON object that somebody else wrote: every field is checked for type and range first.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// How to complain about one kind of document.
struct JsonSource {
  std::string code;   // "LS-7051"
  std::string where;  // "summary.json", "a line of events.jsonl"
};

/// A checked view of one object of a document. Numbers that JSON cannot write (NaN, infinity) are
/// null. Every reader throws BadData naming the document and the field.
class JsonFields {
 public:
  /// Parses `text`, which must be one object.
  JsonFields(std::string_view text, JsonSource source);

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] std::int64_t integer(const char* key) const;  // -2^63 ... 2^63-1
  [[nodiscard]] std::int64_t integer_or(const char* key, std::int64_t missing) const;
  [[nodiscard]] double number(const char* key) const;  // null = NaN
  [[nodiscard]] double number_or(const char* key, double missing) const;
  [[nodiscard]] bool flag_or(const char* key, bool missing) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] JsonFields object(const char* key) const;
  [[nodiscard]] std::vector<JsonFields> objects(const char* key) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const;
  [[nodiscard]] std::vector<double> numbers(const char* key) const;
  [[nodiscard]] std::vector<std::string> texts(const char* key) const;
  [[nodiscard]] std::string to_text() const { return object_.dump(); }

  [[noreturn]] void fail(const std::string& what) const;

 private:
  JsonFields(nlohmann::json object, JsonSource source, std::string path);
  [[nodiscard]] const nlohmann::json& at(const char* key) const;
  [[nodiscard]] std::int64_t to_integer(const nlohmann::json& value, const char* key) const;
  [[nodiscard]] double to_number(const nlohmann::json& value, const char* key) const;
  [[nodiscard]] const nlohmann::json& array(const char* key) const;

  nlohmann::json object_;
  JsonSource source_;
  std::string path_;  // "", "eval."
};

/// `value` on one line; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_line(const nlohmann::ordered_json& value);

}  // namespace lockstep
