// The table of every configuration key: the one source of the TOML reader, --set, JSON, `lockstep
// help KEY` and docs/config.md. Defaults are RunConfig's own.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/config/run_config.h"

namespace lockstep::config {

/// What a key's value may be. `word` is one of Option::words and an enum in RunConfig.
enum class OptionType : std::uint8_t { text, integer, number, boolean, word, number_pair };

/// A value of any key; monostate = unset (an optional without a value); a word is its place in
/// Option::words.
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::array<double, 2>>;

/// Allowed numbers: minimum <= x <= maximum, an open end excluded.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;
  bool open_maximum = false;
};

/// The choice that makes a key matter: it is read when `key` has one of `words` or, where there are
/// none, is a number above `above`.
struct ReadWhen {
  std::string_view key = {};  // empty = always read
  std::span<const std::string_view> words = {};
  double above = 0;
};

struct Option {
  std::string_view key;  // "section.name"
  OptionType type;
  bool optional;                            // may be unset: neither a default nor a value
  std::string_view help;                    // one line, no full stop
  std::string_view explain;                 // more, for `lockstep help KEY`; may be empty
  std::span<const std::string_view> words;  // of a word; of an optional number: words instead of it
  bool keeps_word;  // such a word is a value of its own (text); else it means unset
  Range range;      // of an integer, a number, or each of a pair
  ReadWhen read_when;
  Value (*get)(const RunConfig& config);
  /// `value` comes from convert() or get().
  void (*set)(RunConfig& config, const Value& value);

  [[nodiscard]] std::string_view section() const { return key.substr(0, key.find('.')); }
  [[nodiscard]] std::string_view name() const { return key.substr(key.find('.') + 1); }
};

struct Section {
  std::string_view name;
  std::string_view help;  // one line, no full stop
};

/// All keys, in the order of the sections and of docs/config.md.
[[nodiscard]] std::span<const Option> options();
[[nodiscard]] std::span<const Section> sections();
/// The row of "section.name", or nullptr.
[[nodiscard]] const Option* find_option(std::string_view key);

/// "a whole number from 1 to 1024", "sgd or adamw": what the key takes, for people.
[[nodiscard]] std::string describe_type(const Option& option);
/// A value as run.toml writes it: 0.1, "cosine", [0.9, 0.999]; or "unset".
[[nodiscard]] std::string to_toml_text(const Option& option, const Value& value);
/// The word that a word option has in `config`.
[[nodiscard]] std::string_view word_of(const Option& option, const RunConfig& config);
/// The number that an option of numbers has in `config`. \pre it is never unset.
[[nodiscard]] double number_of(const Option& option, const RunConfig& config);
/// Whether `config` has made the choice that the key needs.
[[nodiscard]] bool is_read(const Option& option, const RunConfig& config);
/// `model.family = "gpt" or "mlp"`, `parallel.local_steps above 1`, or empty when the key is always
/// read.
[[nodiscard]] std::string describe_readers(const Option& option);

/// Names close to a wrong key: "did you mean optimizer.lr?", or what lists them all.
[[nodiscard]] std::string suggest_key(std::string_view key);

/// What `lockstep help KEY` prints: type, default, readers and explanation.
[[nodiscard]] std::string explain_option(const Option& option);
/// docs/config.md.
[[nodiscard]] std::string config_markdown();
/// docs/run.schema.json: what run.toml may hold, for editors (JSON Schema, draft 7).
[[nodiscard]] std::string json_schema();

}  // namespace lockstep::config
