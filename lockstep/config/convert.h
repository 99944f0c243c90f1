// From what a file, a flag or JSON says to a checked value of a key. The same for all three.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/config/registry.h"

namespace lockstep::config {

/// A value as written. monostate = something no key takes (a table, a date), named in `type_name`.
struct Raw {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>> data;
  std::string type_name;  // of monostate: "a table"
};

/// `value`, or why not: `code` is LS-1004 or LS-1005, and empty when all is well.
struct Converted {
  Value value;
  std::string code;
  std::string what;
  std::string fix;
};

[[nodiscard]] Converted convert(const Option& option, const Raw& raw);

/// The words of --set read as the option's type; what cannot be read so stays text.
[[nodiscard]] Raw raw_from_text(const Option& option, std::string_view text);

/// Whole text as a number; false when it is not one or not finite. No locale, no leading '+'.
[[nodiscard]] bool read_integer(std::string_view text, std::int64_t& number);
[[nodiscard]] bool read_number(std::string_view text, double& number);

/// 0.1, 25, 1e-08: the shortest text that reads back as the same number.
[[nodiscard]] std::string number_text(double number);

}  // namespace lockstep::config
