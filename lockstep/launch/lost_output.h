// Writing what ranks print, and what is said when it cannot be written: the job goes on, and
// nothing is lost in silence.
#pragma once
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// What ranks printed and this process could not write. Of each kind of place (standard output,
/// standard error, log files) the first failure is told at once, later ones are counted. Any
/// thread.
class LostOutput {
 public:
  /// \param tell called by whoever loses something first; unset = on standard error.
  explicit LostOutput(std::function<void(const Problem&)> tell = {});
  LostOutput(const LostOutput&) = delete;
  LostOutput& operator=(const LostOutput&) = delete;
  ~LostOutput() = default;

  /// To standard output or standard error. A reader that has left (a closed pipe, a terminal that
  /// is gone) is no fault: it wanted no more.
  void write(int fd, std::string_view text);
  /// Nothing more could be written to the log file `path` for the reason `code` (errno).
  void lose_file(const std::string& path, int code);

  /// All that was told, in order: LS-3008 for a stream, LS-3009 for log files.
  [[nodiscard]] std::vector<Problem> problems() const;

 private:
  void lose_stream(int fd, int code);
  void tell_first(Problem problem);

  std::function<void(const Problem&)> tell_;
  mutable std::mutex mutex_;
  std::vector<Problem> problems_;  // at most one of a place
  std::vector<std::string> files_;
};

/// Writes all of it, waiting for a reader that is slow. \returns 0, or errno of what did not work;
/// 0 as well where the reader has left.
[[nodiscard]] int write_whole(int fd, std::string_view text);

}  // namespace lockstep::launch
