#include "lockstep/worker/error_file.h"

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/json_fields.h"

namespace lockstep::worker {

std::string error_document(const std::vector<Problem>& problems, std::int64_t seconds_since_1970) {
  const Problem first = problems.empty() ? Problem{} : problems.front();
  const std::string where = first.where.empty() ? "" : first.where + ": ";
  return to_line({{"message",
                   {{"message", first.code + ": " + where + first.what},
                    {"extraInfo",
                     {{"py_callstack", to_text(problems)},
                      {"timestamp", std::to_string(seconds_since_1970)}}}}}});
}

void write_error_file(const std::string& path, const std::vector<Problem>& problems) {
  if (path.empty()) return;
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::ofstream(path, std::ios::binary) << error_document(problems, now.count()) << '\n';
}

}  // namespace lockstep::worker
