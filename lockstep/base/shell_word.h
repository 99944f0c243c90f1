// Words as a POSIX shell reads them back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// `text` as one word: in single quotes unless it holds plain characters only. No byte of it means
/// anything to the shell. A NUL byte cannot stand in a word.
[[nodiscard]] std::string shell_word(std::string_view text);

/// The words with blanks between them.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

}  // namespace lockstep
