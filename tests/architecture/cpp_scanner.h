// A C++ source cut into what style is counted in: code without comments, and functions.
#pragma once
#include <string>
#include <vector>

namespace lockstep::test {

/// `text` with every comment replaced by spaces; line ends stay, strings stay.
[[nodiscard]] std::string without_comments(const std::string& text);

/// The same with the insides of strings and characters, and preprocessor lines, replaced by spaces.
[[nodiscard]] std::string bare_code(const std::string& text);

struct FunctionSpan {
  std::string head;    // the start of its signature, on one line
  int first_line = 0;  // of the signature, from 1
  int last_line = 0;   // of the closing brace
  [[nodiscard]] int lines() const { return last_line - first_line + 1; }
};

/// Functions with a body, tests too; a lambda counts to the function around it. Found by braces,
/// not by a parser: good for code that clang-format has formatted.
[[nodiscard]] std::vector<FunctionSpan> functions_of(const std::string& text);

struct LineCounts {
  int code = 0;      // lines with code, a comment beside it or not
  int comments = 0;  // lines with a comment, code beside it or not
  int filled = 0;    // lines with anything
};
[[nodiscard]] LineCounts count_lines(const std::string& text);

}  // namespace lockstep::test
