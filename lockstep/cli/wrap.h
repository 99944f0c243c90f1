// Text broken at blanks.
#pragma once
#include <string>
#include <string_view>

namespace lockstep::cli {

/// `text` so that no line passes `width` columns where blanks allow it; further lines start with
/// `indent` blanks. \param column where the first line already stands.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t column, std::size_t indent,
                                  std::size_t width);

}  // namespace lockstep::cli
