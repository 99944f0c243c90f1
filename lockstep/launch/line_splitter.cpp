#include "lockstep/launch/line_splitter.h"

#include <algorithm>

namespace lockstep::launch {
namespace {

constexpr std::size_t kTailLines = 20;
constexpr std::size_t kTailBytes = std::size_t{8} << 10;
constexpr std::size_t kKeptLines = 400;
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;
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

void WholeLines::feed(std::string_view bytes) {
  rest_ += bytes;
  const auto end = rest_.find_last_of("\r\n");
  std::size_t ready = end == std::string::npos ? 0 : end + 1;
  if (rest_.size() - ready > max_bytes_) ready = rest_.size();
  if (ready == 0) return;
  std::string lines = rest_.substr(0, ready);
  rest_.erase(0, ready);
  sink_(std::move(lines));
}

void WholeLines::finish() {
  if (!rest_.empty()) sink_(std::exchange(rest_, {}));
}

void Tail::add(const std::string& line) {
  lines_.push_back(line.substr(0, kTailBytes));
  bytes_ += lines_.back().size();
  while (lines_.size() > kKeptLines || bytes_ > kKeptBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

std::string Tail::text() const {
  std::size_t first = lines_.size();
  std::size_t bytes = 0;
  while (first > 0 && lines_.size() - first < kTailLines) {
    bytes += lines_[first - 1].size();
    if (bytes > kTailBytes) break;
    --first;
  }
  return joined(first);
}

std::string Tail::joined(std::size_t first) const {
  std::string text;
  for (std::size_t i = first; i < lines_.size(); ++i) {
    text += (text.empty() ? "" : "\n") + lines_[i];
  }
  return text;
}

}  // namespace lockstep::launch
