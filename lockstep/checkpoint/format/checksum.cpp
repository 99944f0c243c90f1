#include "lockstep/checkpoint/format/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lockstep::checkpoint {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

std::string to_hex(std::uint64_t sum) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(kChecksumDigits, '0');
  for (std::size_t i = kChecksumDigits; i-- > 0; sum >>= 4U) text[i] = kDigits[sum & 15U];
  return text;
}

std::optional<std::uint64_t> from_hex(std::string_view digits) {
  if (digits.size() != kChecksumDigits) return std::nullopt;
  std::uint64_t sum = 0;
  for (const char digit : digits) {
    if (digit >= '0' && digit <= '9') {
      sum = sum << 4U | static_cast<std::uint64_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      sum = sum << 4U | static_cast<std::uint64_t>(digit - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace lockstep::checkpoint
