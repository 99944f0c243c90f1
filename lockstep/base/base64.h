// Bytes as the 64 letters of RFC 4648, section 4, with padding.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Nothing for what to_base64() never gives.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace lockstep
