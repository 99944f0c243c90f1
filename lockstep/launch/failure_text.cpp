#include "lockstep/launch/failure_text.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{4} << 20;  // of an error file
constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kTerminate = "terminate called";
constexpr std::string_view kFatal = "Fatal Python error";
constexpr std::size_t kMostLinesOfMessage = 12;  // of an exception's text, behind its frames
constexpr std::size_t kMostLinesOfFatal = 60;

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto field = object.find(key);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

using Lines = std::vector<std::string>;

/// The last line that holds `words`; npos when none does.
std::size_t last_line_with(const Lines& lines, std::string_view words, std::size_t before) {
  for (std::size_t i = std::min(before, lines.size()); i > 0; --i) {
    if (lines[i - 1].find(words) != std::string::npos) return i - 1;
  }
  return std::string::npos;
}

std::string joined(const Lines& lines, std::size_t first, std::size_t end, std::size_t prefix) {
  std::string text;
  for (std::size_t i = first; i < std::min(end, lines.size()); ++i) {
    text += (text.empty() ? "" : "\n") + lines[i].substr(std::min(prefix, lines[i].size()));
  }
  return text;
}

/// Behind the frames of the traceback that begins at `start` stands the exception, whose text may
/// have lines of its own.
std::size_t end_of_traceback(const Lines& lines, std::size_t start, const std::string& prefix) {
  std::size_t at = start + 1;
  const auto is_of_it = [&](std::size_t i) {
    return i < lines.size() && lines[i].starts_with(prefix);
  };
  while (is_of_it(at) && lines[at].size() > prefix.size() && lines[at][prefix.size()] == ' ') ++at;
  const std::size_t most = at + kMostLinesOfMessage;
  while (at < most && is_of_it(at) && lines[at].size() > prefix.size()) ++at;
  return at;
}

/// Python prints the cause of an exception before it, with a sentence between.
std::size_t start_with_causes(const Lines& lines, std::size_t start) {
  while (start > 1) {
    const std::size_t between = last_line_with(lines, "exception", start);
    const bool is_chained =
        between != std::string::npos && between + 2 >= start &&
        (lines[between].find("direct cause of the following") != std::string::npos ||
         lines[between].find("During handling of the above") != std::string::npos);
    const std::size_t earlier =
        is_chained ? last_line_with(lines, kTraceback, between) : std::string::npos;
    if (earlier == std::string::npos) return start;
    start = earlier;
  }
  return start;
}

std::string python_traceback(const Lines& lines, std::size_t start) {
  const std::string prefix = lines[start].substr(0, lines[start].find(kTraceback));
  const std::size_t end = end_of_traceback(lines, start, prefix);
  return joined(lines, start_with_causes(lines, start), end, prefix.size());
}

std::string last_words_of_cpp(const Lines& lines, std::size_t start) {
  std::size_t end = start + 1;
  while (end < lines.size() && end < start + kMostLinesOfMessage && lines[end].starts_with("  "))
    ++end;
  return joined(lines, start, end, lines[start].find(kTerminate));
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("message")) return std::nullopt;
  const auto& message = document["message"];
  if (message.is_string()) return ErrorFile{message.get<std::string>(), ""};
  if (!message.is_object()) return std::nullopt;
  ErrorFile file{text_of(message, "message"), ""};
  const auto extra = message.find("extraInfo");
  if (extra != message.end() && extra->is_object()) {
    file.traceback = text_of(*extra, "py_callstack");
  }
  return file;
}

std::optional<ErrorFile> read_error_file(const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (std::filesystem::file_size(path, error) > kMostBytes || error) return std::nullopt;
  return parse_error_file(read_small_file(path));
}

std::string find_traceback(std::string_view printed) {
  const Lines lines = split(printed, '\n');
  const std::size_t python = last_line_with(lines, kTraceback, lines.size());
  const std::size_t cpp = last_line_with(lines, kTerminate, lines.size());
  const std::size_t fatal = last_line_with(lines, kFatal, lines.size());
  const auto is_last = [&](std::size_t one, std::size_t other, std::size_t third) {
    const auto place = [](std::size_t at) { return at == std::string::npos ? 0 : at + 1; };
    return place(one) > 0 && place(one) >= place(other) && place(one) >= place(third);
  };
  if (is_last(python, cpp, fatal)) return python_traceback(lines, python);
  if (is_last(cpp, python, fatal)) return last_words_of_cpp(lines, cpp);
  if (is_last(fatal, python, cpp)) return joined(lines, fatal, fatal + kMostLinesOfFatal, 0);
  return "";
}

}  // namespace lockstep::launch
