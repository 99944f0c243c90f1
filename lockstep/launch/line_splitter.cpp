#include "lockstep/launch/line_splitter.h"

#include <algorithm>

namespace lockstep::launch {
namespace {

constexpr std::size_t kTailLines = 20;
constexpr std::size_t kTailBytes = std::size_t{8} << 10;
constexpr std::string_view kCutMark = " ...";

}  // namespace

void LineSplitter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const auto end = bytes.find_first_of("\r\n");
    take(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    end_line();
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::take(std::string_view part) {
  const std::size_t room = max_bytes_ - line_.size();
  if (part.size() > room) is_overlong_ = true;
  line_ += part.substr(0, room);
}

void LineSplitter::end_line() {
  if (is_overlong_ && overlong_ == Overlong::cut) line_ += kCutMark;
  if (!is_overlong_ || overlong_ == Overlong::cut) sink_(std::move(line_));
  line_.clear();
  is_overlong_ = false;
}

void LineSplitter::finish() {
  if (!line_.empty()) end_line();
}

void Tail::add(const std::string& line) {
  lines_.push_back(line.substr(0, kTailBytes));
  bytes_ += lines_.back().size();
  while (lines_.size() > kTailLines || bytes_ > kTailBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

std::string Tail::text() const {
  std::string text;
  for (const auto& line : lines_) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace lockstep::launch
