#include "lockstep/config/toml_reader.h"

// The library asserts what bad text can break ("[[["), although it reports the same fault just
// after: leave the report. With NDEBUG it would promise the assertions to the compiler instead.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
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

// The library's table of wide blanks is wrong below U+FEFF: it ends in undefined behaviour for
// letters as common as "ä" (3.3.0, is_non_ascii_horizontal_whitespace). So these characters cross
// it as ones of the private plane 15, which keeps their number and their columns.
constexpr char32_t kPlane15 = 0xF0000;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

std::string utf8_of(char32_t c) {
  const auto byte = [](char32_t bits) {
    return static_cast<char>(static_cast<unsigned char>(bits));
  };
  std::string text;
  if (c < 0x800) {
    text += byte(0xC0U | c >> 6U);
  } else if (c < 0x10000) {
    text += byte(0xE0U | c >> 12U);
    text += byte(0x80U | (c >> 6U & 0x3FU));
  } else {
    text += byte(0xF0U | c >> 18U);
    text += byte(0x80U | (c >> 12U & 0x3FU));
    text += byte(0x80U | (c >> 6U & 0x3FU));
  }
  return text + byte(0x80U | (c & 0x3FU));
}

/// Bytes of the well-formed sequence of more than one byte at `at`, and its character; 0 when there
/// is none: the library will complain about it.
std::size_t sequence_at(std::string_view text, std::size_t at, char32_t& c) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead >= 0xF0 ? 4 : (lead >= 0xE0 ? 3 : (lead >= 0xC2 ? 2 : 0));
  if (length == 0 || at + length > text.size()) return 0;
  c = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) return 0;
    c = c << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  }
  return utf8_of(c) == text.substr(at, length) ? length : 0;
}

/// Every character that `change` answers anew is replaced.
template <typename Change>
std::string with_characters(std::string_view text, Change change) {
  std::string changed;
  changed.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    char32_t c = 0;
    const std::size_t length = sequence_at(text, at, c);
    if (length == 0) {
      changed += text[at++];
    } else {
      changed += utf8_of(change(c));
      at += length;
    }
  }
  return changed;
}

std::string to_plane15(std::string_view text) {
  return with_characters(text, [](char32_t c) {
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    return c <= 0xFEFF && !surrogate ? c + kPlane15 : c;
  });
}

std::string from_plane15(std::string_view text) {
  return with_characters(text, [](char32_t c) {
    return c >= kPlane15 + 0x80 && c <= kPlane15 + 0xFEFF ? c - kPlane15 : c;
  });
}

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
    case toml::node_type::string:
      return {from_plane15(**node.as_string()), ""};
    case toml::node_type::integer:
      return {**node.as_integer(), ""};
    case toml::node_type::floating_point:
      return {**node.as_floating_point(), ""};
    case toml::node_type::boolean:
      return {**node.as_boolean(), ""};
    case toml::node_type::array:
      return raw_of_list(*node.as_array());
    case toml::node_type::table:
      return {{}, "a table"};
    case toml::node_type::none:
      return {{}, "nothing"};
    default:
      return {{}, "a date or time"};
  }
}

std::vector<Entry> entries_of(const toml::table& root) {
  std::vector<Entry> entries;
  for (const auto& [section, node] : root) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      entries.push_back(
          {"", from_plane15(section.str()), raw_of(node), place_of(section.source())});
      continue;
    }
    entries.push_back({from_plane15(section.str()), "", {{}, "a table"}, place_of(node.source())});
    for (const auto& [name, value] : *table) {
      entries.push_back({from_plane15(section.str()), from_plane15(name.str()), raw_of(value),
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
  return from_plane15(text.substr(0, 300));
}

PlacedProblem syntax_problem(const toml::parse_error& error, const Line& line) {
  std::string sentence = sentence_of(error);
  std::string fix = "check quotes, brackets and '=' here and just before";
  const bool in_string = sentence.find("string") != std::string::npos;
  const bool at_line_end = error.source().begin.column > line.end - line.begin;
  if (in_string && at_line_end) {
    sentence = "the text is not closed: the line ends before its quote";
    fix = "put a quote behind the text";
  }
  if (sentence.find("could not determine value type") != std::string::npos) {
    fix = "put text in quotes; numbers, true, false and [lists] stand without";
  } else if (sentence.find("utf-8") != std::string::npos) {
    fix = "save the file as UTF-8";
  }
  return {place_of(error.source()), {"LS-1002", "", sentence, fix}};
}

PlacedProblem duplicate_problem(const std::string& text, const Line& line, std::size_t number) {
  const std::size_t at = first_letter(text, line);
  std::size_t end = std::min(line.end, at + 60);
  while (end < line.end && is_continuation(text[end])) --end;
  return {{number, at - line.begin + 1},
          {"LS-1006", "", "given a second time: " + from_plane15(text.substr(at, end - at)),
           "keep one of the two"}};
}

void blank(std::string& text, const Line& line) {
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(line.begin),
            text.begin() + static_cast<std::ptrdiff_t>(line.end), ' ');
}

/// Parses, and on a fault blanks its line and parses again, as far as that is sure to be right.
class Recovery {
 public:
  explicit Recovery(std::string_view text) : text_(to_plane15(text)) {}

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
      document_.problems.push_back(syntax_problem(error, line));
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
  const bool too_big =
      text.size() > kLongestText || std::count(text.begin(), text.end(), '.') > kMostDots;
  if (too_big) {
    return {{},
            {{{},
              {"LS-1002", "", "the file is too large or too deeply nested for a run",
               "name the run's TOML file, of at most 1 MiB"}}}};
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  return Recovery(text).run();
}

}  // namespace lockstep::config
