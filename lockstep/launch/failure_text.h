// Why a rank failed, in its own words: the file that programs with torch's @record (and ours)
// write, a traceback of Python or the last words of a C++ program among its lines. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

/// What stands in error.json (torch/distributed/elastic/multiprocessing/errors): {"message":
/// {"message": "Type: text", "extraInfo": {"py_callstack": "...", "timestamp": "..."}}}, or
/// {"message": "text"}.
struct ErrorFile {
  std::string message;    // one line or a few
  std::string traceback;  // empty = none
};

/// Nothing when the text is not of that form.
[[nodiscard]] std::optional<ErrorFile> parse_error_file(std::string_view text);
/// Nothing when there is no such file, it is too large, or not of that form.
[[nodiscard]] std::optional<ErrorFile> read_error_file(const std::string& path);

/// The last traceback of Python (with those it names as its cause), "terminate called ..." of C++,
/// or "Fatal Python error" in what a rank printed; empty when there is none.
[[nodiscard]] std::string find_traceback(std::string_view printed);

}  // namespace lockstep::launch
