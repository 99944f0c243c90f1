// A stream of bytes as lines of bounded length, and the last of them.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::launch {

/// What happens to a line that is longer than allowed.
enum class Overlong : unsigned char {
  cut,      // its beginning is kept, marked with "..."
  discard,  // it is left out: half a JSON document is none
};

class LineSplitter {
 public:
  using Sink = std::function<void(std::string line)>;
  LineSplitter(std::size_t max_bytes, Overlong overlong, Sink sink)
      : max_bytes_(max_bytes), overlong_(overlong), sink_(std::move(sink)) {}

  /// Lines end with "\n", "\r\n", or "\r" (a progress bar redrawn in place).
  void feed(std::string_view bytes);
  /// The stream has ended: what is left is a line too.
  void finish();

 private:
  void take(std::string_view part);
  void end_line();

  std::size_t max_bytes_;
  Overlong overlong_;
  Sink sink_;
  std::string line_;
  bool is_overlong_ = false;
  bool after_return_ = false;
};

/// The last lines of a stream, bounded in number and bytes.
class Tail {
 public:
  void add(const std::string& line);
  [[nodiscard]] std::string text() const;  // lines joined by "\n"

 private:
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::launch
