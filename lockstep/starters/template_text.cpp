#include "lockstep/starters/template_text.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::starters {
namespace {

std::string filled_line(std::string_view line, const Filling& values) {
  std::string text;
  while (true) {
    const std::size_t open = line.find('@');
    const std::size_t close = line.find('@', std::min(open, line.size() - 1) + 1);
    text += line.substr(0, open);
    if (open == std::string_view::npos) return text;
    LOCKSTEP_CHECK(close != std::string_view::npos, "a place without an end");
    const auto value = values.find(line.substr(open + 1, close - open - 1));
    LOCKSTEP_CHECK(value != values.end(), "a place without a value");
    text += value->second;
    line.remove_prefix(close + 1);
    if (line.empty()) return text;
  }
}

}  // namespace

std::string filled(std::string_view text, const Filling& values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string line_text = line.empty() ? "" : filled_line(line, values);
    if (!line.empty() && line_text.empty()) continue;
    result += line_text;
    if (!line_text.ends_with('\n')) result += '\n';
  }
  return result;
}

}  // namespace lockstep::starters
