// The keys of a config.json as transformers writes them: found under any of their names, checked,
// and what is not given said.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::model {

class ConfigKeys {
 public:
  /// A key in the spellings of different versions and families; the first that is there counts, and
  /// null is as if it were not.
  using Names = std::initializer_list<const char*>;

  /// \param where the file, for messages. \throws UsageError LS-6022 when `text` is no JSON object.
  ConfigKeys(std::string_view text, std::string where);

  [[nodiscard]] std::int64_t required(Names names);
  [[nodiscard]] std::string required_text(Names names);
  [[nodiscard]] std::vector<std::int64_t> required_integers(Names names);
  [[nodiscard]] std::int64_t integer_or(Names names, std::int64_t missing);
  [[nodiscard]] double share_or(Names names, double missing);
  [[nodiscard]] bool flag_or(Names names, bool missing);
  /// Empty when it is missing; not said.
  [[nodiscard]] std::string text_or(Names names, std::string_view missing);
  [[nodiscard]] bool has(Names names) const;
  /// Entries of the list or object under the key; 0 where there is none.
  [[nodiscard]] std::int64_t entries(Names names) const;
  /// Enters the object under a key for the following reads, or an empty one where there is none.
  void enter(const char* key);
  void leave();

  void assume(std::string sentence);
  void fail(const std::string& code, std::string what, std::string fix);

  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }
  /// One sentence with all keys that were not given, then what was assumed besides.
  [[nodiscard]] std::vector<std::string> assumptions() const;

 private:
  [[nodiscard]] const nlohmann::json* find(Names names) const;
  [[nodiscard]] std::string spelt(Names names) const;
  std::int64_t as_integer(const nlohmann::json& value, Names names);
  void missing(Names names);
  void wrong_type(Names names, const char* wanted);
  void not_given(Names names, const std::string& taken);

  std::string where_;
  nlohmann::json object_;
  const nlohmann::json* current_;
  std::string path_;  // "attn_config." inside one
  std::vector<Problem> problems_;
  std::vector<std::string> not_given_;
  std::vector<std::string> assumed_;
};

}  // namespace lockstep::model
