#include "lockstep/base/error.h"

#include <nlohmann/json.hpp>

namespace lockstep {

std::string to_text(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& p : problems) {
    if (!p.where.empty()) text += p.where + ": ";
    text += "error " + p.code + ": " + p.what + "\n";
    if (!p.fix.empty()) text += "  fix: " + p.fix + "\n";
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
