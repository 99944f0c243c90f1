#include "lockstep/config/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

namespace lockstep::config {
namespace {

// A table is nested as deep as its key has dots, and is destroyed recursively: these bounds keep
// hostile text from exhausting the stack. A real file is a hundred times smaller.
constexpr std::size_t kLongestText = 1 << 20;
constexpr std::ptrdiff_t kMostDots = 5000;
constexpr int kMostDuplicates = 100;

Place place_of(const toml::source_region& source) {
  return {source.begin.line, source.begin.column};
}

Raw raw_of_list(const toml::array& array) {
  std::vector<double> list;
  for (const toml::node& node : array) {
    const std::optional<double> number = node.value<double>();
    if (!number || !node.is_number()) return {{}, "a list"};
    list.push_back(*number);
  }
  return {std::move(list), ""};
}

Raw raw_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string: return {**node.as_string(), ""};
    case toml::node_type::integer: return {**node.as_integer(), ""};
    case toml::node_type::floating_point: return {**node.as_floating_point(), ""};
    case toml::node_type::boolean: return {**node.as_boolean(), ""};
    case toml::node_type::array: return raw_of_list(*node.as_array());
    case toml::node_type::table: return {{}, "a table"};
    case toml::node_type::none: return {{}, "nothing"};
    default: return {{}, "a date or time"};
  }
}

std::vector<Entry> entries_of(const toml::table& root) {
  std::vector<Entry> entries;
  for (const auto& [section, node] : root) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      entries.push_back({"", std::string(section.str()), raw_of(node), place_of(section.source())});
      continue;
    }
    entries.push_back({std::string(section.str()), "", {{}, "a table"}, place_of(node.source())});
    for (const auto& [name, value] : *table) {
      entries.push_back({std::string(section.str()), std::string(name.str()), raw_of(value),
                         place_of(name.source())});
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  return entries;
}

struct Line {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Line line_at(const std::string& text, std::size_t number) {
  Line line;
  for (std::size_t i = 1; i < number; ++i) {
    const std::size_t next = text.find('\n', line.begin);
    if (next == std::string::npos) break;
    line.begin = next + 1;
  }
  line.end = std::min(text.find('\n', line.begin), text.size());
  return line;
}

std::size_t first_letter(const std::string& text, const Line& line) {
  std::size_t at = line.begin;
  while (at < line.end && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

/// The library's sentence without its lead-in: "could not determine value type".
std::string sentence_of(const toml::parse_error& error) {
  std::string text(error.description());
  const std::string lead = "Error while parsing ";
  if (text.compare(0, lead.size(), lead) == 0) text = "reading a " + text.substr(lead.size());
  return text.substr(0, 300);
}

PlacedProblem syntax_problem(const toml::parse_error& error) {
  const std::string sentence = sentence_of(error);
  std::string fix = "check quotes, brackets and '=' here and just before";
  if (sentence.find("could not determine value type") != std::string::npos) {
    fix = "put text in quotes; numbers, true, false and [lists] stand without";
  } else if (sentence.find("utf-8") != std::string::npos) {
    fix = "save the file as UTF-8";
  }
  return {place_of(error.source()), {"LS-1002", "", sentence, fix}};
}

PlacedProblem duplicate_problem(const std::string& text, const Line& line, std::size_t number) {
  const std::size_t at = first_letter(text, line);
  const std::string shown = text.substr(at, std::min<std::size_t>(line.end - at, 60));
  return {{number, at - line.begin + 1},
          {"LS-1006", "", "given a second time: " + shown, "keep one of the two"}};
}

void blank(std::string& text, const Line& line) {
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(line.begin),
            text.begin() + static_cast<std::ptrdiff_t>(line.end), ' ');
}

/// Parses, and on a fault blanks its line and parses again, as far as that is sure to be right.
class Recovery {
 public:
  explicit Recovery(std::string_view text) : text_(text) {}

  TomlDocument run() {
    for (int duplicates = 0; duplicates < kMostDuplicates; ++duplicates) {
      try {
        document_.entries = entries_of(toml::parse(std::string_view(text_)));
        return std::move(document_);
      } catch (const toml::parse_error& error) {
        if (!recover(error)) return std::move(document_);
      }
    }
    return std::move(document_);
  }

 private:
  /// Notes the problem; whether a further attempt makes sense.
  bool recover(const toml::parse_error& error) {
    const std::size_t number = error.source().begin.line;
    const Line line = line_at(text_, number);
    const bool header = text_[std::min(first_letter(text_, line), text_.size() - 1)] == '[';
    const bool duplicate = error.description().find("redefine") != std::string_view::npos;
    if (duplicate) {
      document_.problems.push_back(duplicate_problem(text_, line, number));
    } else if (!faulty_line_) {
      document_.problems.push_back(syntax_problem(error));
      faulty_line_ = true;
    } else {
      return false;  // a consequence of the blanked line, most likely
    }
    blank(text_, line);
    return !header;
  }

  std::string text_;
  TomlDocument document_;
  bool faulty_line_ = false;
};

}  // namespace

TomlDocument read_toml(std::string_view text) {
  const bool too_big = text.size() > kLongestText ||
                       std::count(text.begin(), text.end(), '.') > kMostDots;
  if (too_big) {
    return {{}, {{{}, {"LS-1002", "", "the file is too large or too deeply nested for a run",
                       "name the run's TOML file, of at most 1 MiB"}}}};
  }
  return Recovery(text).run();
}

}  // namespace lockstep::config
