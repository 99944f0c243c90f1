// The known name closest to a misspelt one, and numbers close to a wrong one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Edits between two words: insert, delete, replace, swap neighbours (Damerau 1964, in the form
/// where no letter is edited twice). ASCII case does not count.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the fewest edits, the first of equals; empty when none is close enough to be
/// meant (more than a third of the letters differ), or `word` is longer than 64 bytes.
[[nodiscard]] std::string nearest_name(std::string_view word,
                                       std::span<const std::string_view> candidates);

/// "did you mean NAME?", or `otherwise` when no candidate is close.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> candidates,
                                       std::string_view otherwise);

/// "4 or 8": the divisors of `number` next to `wanted`, below and above. \pre both are above 0.
[[nodiscard]] std::string nearest_divisors(std::int64_t number, std::int64_t wanted);

}  // namespace lockstep
