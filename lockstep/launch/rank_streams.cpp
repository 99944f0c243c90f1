#include "lockstep/launch/rank_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMaxOutputLineBytes = std::size_t{16} << 10;
constexpr std::size_t kMaxReportLineBytes = std::size_t{1} << 20;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr int kPipeBytes = 1 << 20;  // a rank runs ahead of the launcher by so much
constexpr int kReadsAtOnce = 16;     // of one stream, before the others have their turn
constexpr int kReadsOfTheRest =
    1024;  // a writer that escaped from its group cannot hold up the end

}  // namespace

Stream::Stream(Fd read_end, Bytes on_bytes, std::function<void()> on_end)
    : fd_(std::move(read_end)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)),
      on_bytes_(std::move(on_bytes)),
      on_end_(std::move(on_end)) {
  // read() takes what is there: who waits for more takes no signal meanwhile.
  ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
}

void Stream::read() {
  for (int i = 0; i < kReadsAtOnce && is_open(); ++i) {
    const ssize_t n = ::read(fd_.get(), buffer_.get(), kReadBytes);
    if (n > 0) {
      on_bytes_({buffer_.get(), static_cast<std::size_t>(n)});
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      end();
    } else {
      return;
    }
  }
}

void Stream::drain() {
  for (int i = 0; i < kReadsOfTheRest && is_open(); ++i) {
    pollfd ready{fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    read();
  }
  end();
}

void Stream::end() {
  if (!is_open()) return;
  fd_.reset();
  on_end_();
}

RankStreams::RankStreams(int rank, int local_rank, const LocalJobOptions& options, OutputPump& pump,
                         LostOutput& lost) {
  const auto place = static_cast<std::size_t>(local_rank);
  const RankLogs logs = place < options.logs.size() ? options.logs[place] : RankLogs{};
  add_output({rank, false, "", false, local_rank}, logs.out, pump, lost);
  add_output({rank, true, "", false, local_rank}, logs.err, pump, lost);
  if (rank == 0 && options.on_report) add_reports(pump);
}

Fd RankStreams::make_pipe(std::size_t slot) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw limit_fault("no pipe can be made", errno);
  Fd read_end(fds[0]);
  write_ends_[slot].reset(fds[1]);
  ::fcntl(read_end.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller pipe works as well
  return read_end;
}

void RankStreams::add_output(const OutputLine& of, const StreamLog& log, OutputPump& pump,
                             LostOutput& lost) {
  std::vector<std::shared_ptr<ByteSink>> sinks;
  if (!log.file.empty()) sinks.push_back(std::make_shared<LogFile>(log.file, lost));
  const auto push = [of, &pump](std::string text, bool is_raw) {
    pump.push_output({of.rank, of.is_stderr, std::move(text), is_raw, of.local_rank});
  };
  if (log.shown == StreamLog::Shown::raw) {
    sinks.push_back(std::make_shared<WholeLines>(
        kMaxOutputLineBytes, [push](std::string text) { push(std::move(text), true); }));
  }
  const bool is_shown_by_line = log.shown == StreamLog::Shown::lines;
  if (of.is_stderr || is_shown_by_line) {
    sinks.push_back(std::make_shared<LineSplitter>(
        kMaxOutputLineBytes, Overlong::cut,
        [push, is_shown_by_line, is_stderr = of.is_stderr, tail = stderr_tail_](std::string line) {
          if (is_stderr) tail->add(line);
          if (is_shown_by_line) push(std::move(line), false);
        }));
  }
  streams_.emplace_back(
      make_pipe(of.is_stderr ? 1 : 0),
      [sinks](std::string_view bytes) {
        for (const auto& sink : sinks) sink->feed(bytes);
      },
      [sinks] {
        for (const auto& sink : sinks) sink->finish();
      });
}

void RankStreams::add_reports(OutputPump& pump) {
  auto lines = std::make_shared<LineSplitter>(
      kMaxReportLineBytes, Overlong::discard,
      [&pump](std::string line) { pump.push_report(std::move(line)); });
  streams_.emplace_back(
      make_pipe(2), [lines](std::string_view bytes) { lines->feed(bytes); },
      [lines] { lines->finish(); });
}

void RankStreams::close_write_ends() {
  for (Fd& fd : write_ends_) fd.reset();
}

}  // namespace lockstep::launch
