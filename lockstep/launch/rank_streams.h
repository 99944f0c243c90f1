// What a rank prints and reports: its pipes, read without ever making it wait.
#pragma once
#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/launch/line_splitter.h"
#include "lockstep/launch/log_file.h"
#include "lockstep/launch/output_pump.h"

namespace lockstep::launch {

/// The reading end of a pipe and what its bytes become.
class Stream {
 public:
  using Bytes = std::function<void(std::string_view)>;
  /// \param read_end is made non-blocking. \param on_end called once, when nothing more can come.
  Stream(Fd read_end, Bytes on_bytes, std::function<void()> on_end);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
  /// Reads what is there, a bounded amount.
  void read();
  /// The writer is gone: reads the rest and closes.
  void drain();

 private:
  void end();

  Fd fd_;
  std::unique_ptr<char[]> buffer_;  // not on the stack: `ulimit -s` may leave little
  Bytes on_bytes_;
  std::function<void()> on_end_;
};

/// The pipes of one rank. The write ends are for the child; close_write_ends() after it started.
class RankStreams {
 public:
  /// \param options say where the output goes: files, or `pump`. \param lost of the files.
  RankStreams(int rank, int local_rank, const LocalJobOptions& options, OutputPump& pump,
              LostOutput& lost);

  [[nodiscard]] int stdout_write() const { return write_ends_[0].get(); }
  [[nodiscard]] int stderr_write() const { return write_ends_[1].get(); }
  /// -1 when the rank does not report.
  [[nodiscard]] int report_write() const { return write_ends_[2].get(); }
  void close_write_ends();

  [[nodiscard]] std::vector<Stream>& streams() { return streams_; }
  [[nodiscard]] const Tail& stderr_tail() const { return *stderr_tail_; }

 private:
  void add_output(const OutputLine& of, const StreamLog& log, OutputPump& pump, LostOutput& lost);
  void add_reports(OutputPump& pump);
  [[nodiscard]] Fd make_pipe(std::size_t slot);

  Fd write_ends_[3];
  std::vector<Stream> streams_;
  std::shared_ptr<Tail> stderr_tail_ =
      std::make_shared<Tail>();  // shared with the stream that fills it
};

}  // namespace lockstep::launch
