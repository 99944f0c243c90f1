// A list for people that stays readable however long it is.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

inline constexpr std::size_t kMostListed = 8;

/// "a, b and 5 more": the first eight.
[[nodiscard]] std::string listed(std::span<const std::string> items,
                                 std::string_view separator = ", ");

}  // namespace lockstep::checkpoint
