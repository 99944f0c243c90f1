// Why a group is over, on its way from one of its parts to the others: a part numbers its ranks
// itself, so its own words must be told from words that name ranks of the whole group.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

inline constexpr std::string_view kTold = "told: ";

/// \param cause names ranks of the whole group.
[[nodiscard]] inline std::string as_told(const std::string& cause) {
  return std::string(kTold) + cause;
}

/// The cause that as_told() was given; none = the part's own words.
[[nodiscard]] inline std::optional<std::string> told_in(const std::string& text) {
  if (!text.starts_with(kTold)) return std::nullopt;
  return text.substr(kTold.size());
}

}  // namespace lockstep::comm
