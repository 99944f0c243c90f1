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

/// Takes the bytes of a stream as they come.
class ByteSink {
 public:
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;
  virtual ~ByteSink() = default;
  virtual void feed(std::string_view bytes) = 0;
  /// The stream has ended.
  virtual void finish() {}
};

class LineSplitter : public ByteSink {
 public:
  using Sink = std::function<void(std::string line)>;
  LineSplitter(std::size_t max_bytes, Overlong overlong, Sink sink)
      : max_bytes_(max_bytes), overlong_(overlong), sink_(std::move(sink)) {}

  /// Lines end with "\n", "\r\n", or "\r" (a progress bar redrawn in place).
  void feed(std::string_view bytes) override;
  /// What is left is a line too.
  void finish() override;

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

/// The bytes unchanged, but cut behind a line end only, so that lines of two ranks do not mix. A
/// line longer than `max_bytes` is cut within.
class WholeLines : public ByteSink {
 public:
  using Sink = std::function<void(std::string lines)>;
  WholeLines(std::size_t max_bytes, Sink sink) : max_bytes_(max_bytes), sink_(std::move(sink)) {}
  void feed(std::string_view bytes) override;
  void finish() override;

 private:
  std::size_t max_bytes_;
  Sink sink_;
  std::string rest_;  // begun, without its end
};

/// The last lines of a stream, bounded in number and bytes.
class Tail {
 public:
  void add(const std::string& line);
  /// A screenful, lines joined by "\n".
  [[nodiscard]] std::string text() const;
  /// All that is kept: enough for a long traceback.
  [[nodiscard]] std::string long_text() const { return joined(0); }

 private:
  [[nodiscard]] std::string joined(std::size_t first) const;

  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::launch
