// Numbers and texts in the forms that pickles have for them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// The digits of a little-endian two's complement number of any length; "" is 0. Takes time in
/// the square of the length.
[[nodiscard]] std::string decimal_of(std::string_view little_endian);

/// A whole decimal number that fits; nothing for other texts.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view digits);

/// A float as Python's repr() writes it; nothing for other texts.
[[nodiscard]] std::optional<double> parse_real(std::string_view text);

/// Text of protocol 0, escapes \uXXXX and \UXXXXXXXX, other bytes Latin-1, as UTF-8; nothing
/// when an escape is broken or no character.
[[nodiscard]] std::optional<std::string> unescape_unicode(std::string_view line);

}  // namespace lockstep::checkpoint
