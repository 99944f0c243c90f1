// The known name closest to a misspelt one.
#pragma once
#include <cstddef>
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

}  // namespace lockstep
