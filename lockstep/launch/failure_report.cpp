#include "lockstep/launch/failure_report.h"

#include <time.h>

#include "lockstep/base/units.h"
#include "lockstep/launch/failure_text.h"
#include "lockstep/launch/launch_values.h"
#include "lockstep/launch/verdict.h"

namespace lockstep::launch {
namespace {

using rendezvous::Failure;

std::string local_time(std::int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  tm parts{};
  ::localtime_r(&time, &parts);
  char text[32];
  const std::size_t length = ::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return {text, length};
}

std::string how_it_ended(const Failure& failure) {
  if (!failure.because.empty()) return failure.because;
  return failure.signal != 0 ? "was killed by " + signal_name(failure.signal)
                             : "ended with exit code " + std::to_string(failure.exit_code);
}

std::string indented(const std::string& lines) {
  std::string text = "    | ";
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "    | ";
  }
  return text + "\n";
}

std::string without_last_ends(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_traceback(const std::string& text) {
  return text.find("Traceback (most recent call last)") != std::string::npos ||
         text.starts_with("terminate called") || text.starts_with("Fatal Python error");
}

/// The best of what a rank left: its error file, a traceback in what it printed, its last lines.
std::string words_of(const RankEnd& end) {
  if (const auto file = read_error_file(end.error_file)) {
    const std::string text = file->traceback.empty() ? file->message : file->traceback;
    if (!text.empty()) return without_last_ends(text);
  }
  const std::string traceback = find_traceback(end.long_stderr);
  return without_last_ends(traceback.empty() ? end.last_stderr : traceback);
}

}  // namespace

Failure failure_of(const RankEnd& end, const std::string& host, bool ours) {
  Failure failure;
  failure.host = host;
  failure.rank = end.rank;
  failure.local_rank = end.local_rank;
  failure.pid = end.pid;
  failure.exit_code = end.exit_code;
  failure.signal = end.signal;
  failure.seconds = end.seconds;
  failure.consequence = end.stopped_by_us || (ours && has_exit(end, Exit::peer_lost));
  failure.because = how_ended(end, ours);
  if (!end.hint.empty()) failure.because += ": " + end.hint;
  if (!end.stopped_by_us) failure.text = words_of(end);
  return failure;
}

std::string failure_text(const Failure& failure, const FailureDetails& details) {
  const auto row = [](const char* name, const std::string& value) {
    std::string text = "  " + std::string(name);
    text.resize(14, ' ');
    return text + value + "\n";
  };
  std::string text = "rank " + std::to_string(failure.rank) + " " + how_it_ended(failure) +
                     ", after " + format_duration(failure.seconds) + "\n";
  if (details.ended_at_s != 0) text += row("time", local_time(details.ended_at_s));
  text += row("host", failure.host);
  text += row("rank", std::to_string(failure.rank) + " (local rank " +
                          std::to_string(failure.local_rank) + ", pid " +
                          std::to_string(failure.pid) + ")");
  if (!details.error_file.empty()) text += row("error file", details.error_file);
  if (failure.text.empty()) return text + "  it printed nothing on standard error\n";
  return text + (is_traceback(failure.text) ? "  traceback\n" : "  its last lines\n") +
         indented(failure.text);
}

std::string consequence_text(const Failure& failure) {
  return "rank " + std::to_string(failure.rank) + " on " + failure.host + " " +
         how_it_ended(failure) + " (pid " + std::to_string(failure.pid) + ")";
}

}  // namespace lockstep::launch
