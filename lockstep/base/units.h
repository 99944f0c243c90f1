// Bytes, rates, counts and durations as people write them, and back.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// "0 B", "824 B", "1.52 MB", "48.1 GB": three digits, 1 kB = 1000 B (docs/cli.md).
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

/// "7", "12,345,678": thousands apart.
[[nodiscard]] std::string format_count(std::int64_t count);

/// "1 rank", "2 ranks", "1,024 ranks".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

/// Three digits and a prefix: "0.52", "948", "1.28k", "12.3M".
[[nodiscard]] std::string format_short(double number);

/// "85 us", "12.4 ms", "3.20 s", "2 min 05 s", "1 h 03 min", "2 d 04 h". Negative or NaN: "?".
[[nodiscard]] std::string format_duration(double seconds);

/// "92.87 %" for 0.9287. \param decimals after the point.
[[nodiscard]] std::string format_percent(double fraction, int decimals = 1);

/// `number` with that many digits after the point: "0.0810", "nan".
[[nodiscard]] std::string format_fixed(double number, int decimals);

/// `number` with `digits` significant ones, never in scientific form unless below 1e-4 or above
/// 1e9.
[[nodiscard]] std::string format_number(double number, int digits = 4);

/// The shortest text that reads back as `number`: "0.1", "65536", "1e-08".
[[nodiscard]] std::string format_shortest(double number);

/// "4096", "1.5GB", "512 MiB": decimal and binary prefixes; nothing when it is not a size.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text);

/// "90s", "1h30m", "3d", "250ms" in seconds; a bare number is seconds; nothing when it is no
/// duration.
[[nodiscard]] std::optional<double> parse_duration_s(std::string_view text);

}  // namespace lockstep
