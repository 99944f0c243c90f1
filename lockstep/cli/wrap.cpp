#include "lockstep/cli/wrap.h"

#include <algorithm>

namespace lockstep::cli {

std::string wrapped(std::string_view text, std::size_t column, std::size_t indent,
                    std::size_t width) {
  std::string lines;
  bool line_start = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const std::size_t needed = word.size() + (line_start ? 0 : 1);
    if (!line_start && column + needed > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!line_start) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    line_start = false;
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines;
}

}  // namespace lockstep::cli
