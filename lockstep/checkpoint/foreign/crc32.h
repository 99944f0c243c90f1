// The checksum of zip archives: CRC-32 of the polynomial 0xEDB88320.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::checkpoint {

/// Of what came before, whose checksum is `before` (0: nothing did), followed by `bytes`.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace lockstep::checkpoint
