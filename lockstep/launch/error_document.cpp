#include "lockstep/launch/error_document.h"

#include <fcntl.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "lockstep/base/fd.h"
#include "lockstep/launch/failure_text.h"
#include "lockstep/launch/lost_output.h"
#include "lockstep/launch/verdict.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

using nlohmann::json;

json made_document(const RankEnd& first) {
  std::string text = "rank " + std::to_string(first.rank) + " " + how_ended(first, false);
  if (!first.last_stderr.empty()) text += "\n" + first.last_stderr;
  json extra{{"py_callstack", find_traceback(first.long_stderr)},
             {"timestamp", std::to_string(first.ended_at_s)}};
  return {{"message", {{"message", std::move(text)}, {"extraInfo", std::move(extra)}}}};
}

}  // namespace

std::string error_document(const RankEnd& first) {
  json document = read_error_file(first.error_file)
                      ? json::parse(read_small_file(first.error_file), nullptr, false)
                      : made_document(first);
  if (document.is_discarded()) document = made_document(first);  // changed since it was looked at
  if (document["message"].is_object()) {
    document["message"]["errorCode"] = first.signal != 0 ? -first.signal : first.exit_code;
  }
  return document.dump(-1, ' ', false,
                       json::error_handler_t::replace);  // a program prints any byte
}

int overwrite_file(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file ? write_whole(file.get(), text) : errno;
}

}  // namespace lockstep::launch
