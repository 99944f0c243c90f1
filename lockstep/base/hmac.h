// Codes that only who knows a key can make: HMAC-SHA256 (RFC 2104).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

using Code = std::array<std::uint8_t, 32>;

[[nodiscard]] Code hmac_sha256(std::span<const std::uint8_t> key, std::string_view message);

/// Takes as long for codes that differ early as for equal ones, so that time tells nothing of them.
[[nodiscard]] bool is_same_code(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

}  // namespace lockstep
