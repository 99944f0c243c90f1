#include "tests/architecture/cpp_scanner.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <regex>
#include <utility>

#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Walks a text once and blanks what it is told to.
class Blanker {
 public:
  Blanker(const std::string& text, bool strings) : text_(text), out_(text), strings_(strings) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "//") == 0) {
        blank_to(text_.find('\n', at_));
      } else if (text_.compare(at_, 2, "/*") == 0) {
        blank_to(after("*/", at_ + 2));
      } else if (text_.compare(at_, 2, "R\"") == 0 && (at_ == 0 || !is_word(text_[at_ - 1]))) {
        const auto open = text_.find('(', at_);
        literal(after(")" + text_.substr(at_ + 2, open - at_ - 2) + "\"", open));
      } else if (text_[at_] == '"' ||
                 (text_[at_] == '\'' && (at_ == 0 || !is_word(text_[at_ - 1])))) {
        literal(end_of_literal());
      } else {
        ++at_;
      }
    }
    return out_;
  }

 private:
  std::size_t after(const std::string& mark, std::size_t from) const {
    const auto found = text_.find(mark, from);
    return found == std::string::npos ? text_.size() : found + mark.size();
  }

  std::size_t end_of_literal() const {
    const char quote = text_[at_];
    auto end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    return std::min(end + 1, text_.size());
  }

  void literal(std::size_t end) {
    if (!strings_) {
      at_ = end;
      return;
    }
    ++at_;  // the quotes stay, so that a string is still something
    blank_to(end - 1);
    at_ = end;
  }

  void blank_to(std::size_t end) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) {
      if (out_[at_] != '\n') out_[at_] = ' ';
    }
  }

  const std::string& text_;
  std::string out_;
  bool strings_;
  std::size_t at_ = 0;
};

void blank_preprocessor_lines(std::string& code) {
  bool inside = false;
  for (std::size_t start = 0; start < code.size();) {
    const auto end = std::min(code.find('\n', start), code.size());
    const auto first = code.find_first_not_of(' ', start);
    inside = inside || (first < end && code[first] == '#');
    const bool goes_on = inside && end > start && code[end - 1] == '\\';
    if (inside)
      std::fill(code.begin() + static_cast<std::ptrdiff_t>(start),
                code.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    inside = goes_on;
    start = end + 1;
  }
}

/// What a brace opens, judged by the text between the last ';', '{' or '}' and it.
enum class Opens { scope, function, value, initializer };

std::string without_attributes_and_template(const std::string& head) {
  static const std::regex kAttribute(R"(\[\[[^\]]*\]\])");
  std::string left = std::regex_replace(head, kAttribute, "");
  for (auto at = left.find("template");
       at == left.find_first_not_of(" \n") && at != std::string::npos; at = left.find("template")) {
    int depth = 0;
    auto end = left.find('<', at);
    for (; end < left.size(); ++end) {
      if (left[end] == '<') ++depth;
      if (left[end] == '>' && --depth == 0) break;
    }
    left.erase(0, std::min(end + 1, left.size()));
  }
  return left;
}

Opens what_opens(const std::string& raw_head) {
  static const std::regex kScope(R"(^\s*(inline\s+)?(namespace|class|struct|union|enum|extern)\b)");
  static const std::regex kAssigned(R"([^=!<>]=\s*[^=]*$|=\s*$|\breturn\b)");
  static const std::regex kMemberStart(R"(\)[^()]*[^:]:[^:])");  // ") : a_(1), b_"
  static const std::regex kOperator(R"(\boperator\s*[^\s\w(]+)");
  const std::string head =
      std::regex_replace(without_attributes_and_template(raw_head), kOperator, "op");
  if (std::regex_search(head, kScope) && head.find('(') == std::string::npos) return Opens::scope;
  if (head.find('(') == std::string::npos) return Opens::value;
  const auto last = head.find_last_not_of(" \n");
  if (std::regex_search(head, kMemberStart) && is_word(head[last])) {
    static const std::regex kSpecifierEnd(R"(\b(const|noexcept|override|final|mutable)\s*$)");
    if (!std::regex_search(head, kSpecifierEnd)) return Opens::initializer;
  }
  const auto before_parameters = head.substr(0, head.find('('));
  if (std::regex_search(before_parameters, kAssigned)) return Opens::value;
  if (head[last] == '(' || head[last] == ',') return Opens::value;
  return Opens::function;
}

std::size_t matching_brace(const std::string& code, std::size_t open) {
  int depth = 0;
  for (auto at = open; at < code.size(); ++at) {
    if (code[at] == '{') ++depth;
    if (code[at] == '}' && --depth == 0) return at;
  }
  return code.size() - 1;
}

std::string one_line(std::string head) {
  std::replace(head.begin(), head.end(), '\n', ' ');
  const auto first = head.find_first_not_of(' ');
  return first == std::string::npos ? "" : head.substr(first, 90);
}

}  // namespace

std::string without_comments(const std::string& text) { return Blanker(text, false).run(); }

std::string bare_code(const std::string& text) {
  std::string code = Blanker(text, true).run();
  blank_preprocessor_lines(code);
  return code;
}

std::vector<FunctionSpan> functions_of(const std::string& text) {
  const std::string code = bare_code(text);
  const auto line_of = [&](std::size_t at) {
    return 1 + static_cast<int>(
                   std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  };
  std::vector<FunctionSpan> found;
  std::size_t head_start = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == ';' || code[at] == '}') head_start = at + 1;
    for (const std::string label : {"public:", "private:", "protected:"}) {
      if (code.compare(at, label.size(), label) == 0) head_start = at + label.size();
    }
    if (code[at] != '{') continue;
    const std::string head = code.substr(head_start, at - head_start);
    const Opens opens = what_opens(head);
    if (opens == Opens::scope) {
      head_start = at + 1;
    } else {
      const auto end = matching_brace(code, at);
      if (opens == Opens::function) {
        const auto first = code.find_first_not_of(" \n", head_start);
        found.push_back({one_line(head), line_of(first), line_of(end)});
        head_start = end + 1;
      }
      at = end;  // the head goes on after a value or a member's initial value
    }
  }
  return found;
}

LineCounts count_lines(const std::string& text) {
  const auto with = split_lines(text);
  const auto without = split_lines(without_comments(text));
  const auto blank = [](const std::string& line) {
    return line.find_first_not_of(" \t\r") == std::string::npos;
  };
  LineCounts counts;
  for (std::size_t i = 0; i < with.size(); ++i) {
    if (blank(with[i])) continue;
    const bool has_code = i < without.size() && !blank(without[i]);
    counts.filled += 1;
    counts.code += has_code ? 1 : 0;
    counts.comments += i >= without.size() || without[i] != with[i] ? 1 : 0;
  }
  return counts;
}

}  // namespace lockstep::test
