#include "lockstep/base/error.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// Names out of files stand in problems: nothing in them may steer a terminal.
std::string plain(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_control = (byte < 0x20U && byte != '\n' && byte != '\t') || byte == 0x7fU;
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    const bool is_wide_control = byte == 0xc2U && next >= 0x80U && next < 0xa0U;  // U+0080..9F
    if (is_control) text[i] = '?';
    if (is_wide_control) text.replace(i, 2, "?");
  }
  return text;
}

}  // namespace

std::string to_text(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& p : problems) {
    if (!p.where.empty()) text += plain(p.where) + ": ";
    text += "error " + p.code + ": " + plain(p.what) + "\n";
    if (!p.fix.empty()) text += "  fix: " + plain(p.fix) + "\n";
  }
  return text;
}

std::string to_json_text(const std::vector<Problem>& problems) {
  auto errors = nlohmann::ordered_json::array();
  for (const Problem& p : problems) {
    errors.push_back({{"code", p.code}, {"where", p.where}, {"what", p.what}, {"fix", p.fix}});
  }
  const nlohmann::ordered_json document{{"errors", errors}};
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Error::Error(Exit exit, std::vector<Problem> problems)
    : std::runtime_error(to_text(problems)), exit_(exit), problems_(std::move(problems)) {}

Bug::Bug(const char* file, int line, const std::string& what)
    : Error(Exit::bug, {{"LS-9001", std::string(file) + ":" + std::to_string(line), what,
                         "this is a bug of lockstep: please report it with the command you ran"}}) {
}

}  // namespace lockstep
