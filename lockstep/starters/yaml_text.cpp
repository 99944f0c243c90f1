#include "lockstep/starters/yaml_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace lockstep::starters {

std::string yaml_word(std::string_view text) {
  std::string word = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      word += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      word += escape.data();
    } else {
      word += c;
    }
  }
  return word + "\"";
}

std::string yaml_command(const std::vector<std::string>& words) {
  std::string list;
  for (std::string word : words) {
    for (std::size_t at = 0; (at = word.find("$(", at)) != std::string::npos; at += 3) {
      word.insert(at, 1, '$');
    }
    list += (list.empty() ? "" : ", ") + yaml_word(word);
  }
  return "[" + list + "]";
}

std::string object_name(std::string_view name) {
  constexpr std::size_t kLongest = 40;
  std::string label;
  for (const unsigned char c : name) {
    const bool plain = c < 0x80 && std::isalnum(c) != 0;
    const char letter = plain ? static_cast<char>(std::tolower(c)) : '-';
    if (letter == '-' && (label.empty() || label.back() == '-')) continue;
    label += letter;
  }
  if (label.empty() || std::isdigit(static_cast<unsigned char>(label.front())) != 0) {
    label.insert(0, label.empty() ? "run" : "run-");
  }
  // Words that YAML would take for something else than a text.
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (label == word) label.insert(0, "run-");
  }
  label.resize(std::min(label.size(), kLongest));
  while (label.back() == '-') label.pop_back();
  return label;
}

std::string indented(std::string_view text, std::size_t indent) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines += std::string(indent, ' ') + std::string(line);
    lines += '\n';
  }
  return lines;
}

}  // namespace lockstep::starters
