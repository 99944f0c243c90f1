#include "lockstep/launch/output_pump.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMaxQueuedBytes = std::size_t{8} << 20;
constexpr std::size_t kItemBytes = 64;  // counted for each line beside its text

std::uint64_t lines_of(const OutputLine& line) {
  if (!line.is_raw) return 1;
  return static_cast<std::uint64_t>(std::count(line.text.begin(), line.text.end(), '\n'));
}

}  // namespace

OutputPump::OutputPump(const LocalJobOptions& options, LostOutput& lost)
    : options_(options), lost_(lost), failure_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!failure_) throw limit_fault("the ranks' output cannot be watched", errno);
  const BlockedSignals blocked;  // signals of the process go to the thread that watches the ranks
  thread_ = std::thread([this] { run(); });
}

OutputPump::~OutputPump() {
  try {
    finish();
  } catch (...) {  // finish() was not called because another exception is on its way
  }
}

void OutputPump::push(Item item) {
  const std::lock_guard lock(mutex_);
  queued_bytes_ += kItemBytes + item.line.text.size();
  queue_.push_back(std::move(item));
  while (queued_bytes_ > kMaxQueuedBytes) {
    queued_bytes_ -= kItemBytes + queue_.front().line.text.size();
    dropped_ += lines_of(queue_.front().line);
    queue_.pop_front();
  }
  changed_.notify_one();
}

void OutputPump::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= kItemBytes + item.line.text.size();
    const std::uint64_t dropped = std::exchange(dropped_, 0);
    if (thrown_) continue;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      if (dropped > 0) {
        hand_over({false,
                   {item.line.rank, true,
                    std::to_string(dropped) + " lines dropped: the reader "
                                              "of this output is slower than the ranks",
                    false, item.line.local_rank}});
      }
      hand_over(item);
    } catch (...) {
      thrown = std::current_exception();
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(failure_.get(), &one, sizeof one);
    }
    lock.lock();
    thrown_ = thrown;
  }
}

void OutputPump::hand_over(const Item& item) const {
  if (item.is_report) {
    if (options_.on_report) options_.on_report(item.line.text);
  } else if (options_.on_output) {
    options_.on_output(item.line);
  } else {
    lost_.write(item.line.is_stderr ? STDERR_FILENO : STDOUT_FILENO,
                "[rank " + std::to_string(item.line.rank) + "] " + item.line.text + "\n");
  }
}

void OutputPump::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace lockstep::launch
