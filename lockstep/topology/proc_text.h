// Reading the small text files of /proc and /sys. What cannot be read or understood is nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The whole file, or "" when it cannot be read.
[[nodiscard]] std::string read_small_file(const std::string& path);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string_view trim(std::string_view text);

/// A decimal number at the start of `text` after blanks; "max" and "" are nothing.
[[nodiscard]] std::optional<std::int64_t> leading_integer(std::string_view text);

/// The rest of the first line that starts with `key`, trimmed: field("a: 1\nb: 2\n", "b:") = "2".
[[nodiscard]] std::string_view field(std::string_view text, std::string_view key);

/// "0-2,5" as {0, 1, 2, 5}: the form of cpulist files. Ranges that make no sense are left out.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace lockstep
