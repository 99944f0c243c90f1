// The checksum of a tensor's bytes and of the manifest: 64-bit XXH3.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);
[[nodiscard]] std::uint64_t checksum(std::string_view text);

inline constexpr std::size_t kChecksumDigits = 16;

/// 16 lower-case hex digits, and back; nothing when it is not exactly that.
[[nodiscard]] std::string to_hex(std::uint64_t sum);
[[nodiscard]] std::optional<std::uint64_t> from_hex(std::string_view digits);

}  // namespace lockstep::checkpoint
