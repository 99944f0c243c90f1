#include "lockstep/checkpoint/tools/chunks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/blocked_signals.h"

namespace lockstep::checkpoint {
namespace {

/// Chunks that nobody has taken yet, until one fails.
class Queue {
 public:
  Queue(std::uint64_t chunks, const std::function<void(int, std::uint64_t)>& work)
      : chunks_(chunks), work_(work) {}

  void serve(int worker) {
    try {
      for (std::uint64_t chunk = next_++; chunk < chunks_; chunk = next_++) work_(worker, chunk);
    } catch (...) {
      next_ = chunks_;  // nobody starts another
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::uint64_t chunks_;
  const std::function<void(int, std::uint64_t)>& work_;
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

int workers_of(std::uint64_t chunks, int threads) {
  const auto wanted = static_cast<std::uint64_t>(std::max(threads, 1));
  return static_cast<int>(std::max<std::uint64_t>(1, std::min(wanted, chunks)));
}

void for_each_chunk(std::uint64_t chunks, int threads,
                    const std::function<void(int, std::uint64_t)>& work) {
  Queue queue(chunks, work);
  {
    std::vector<std::jthread> helpers;
    const BlockedSignals blocked;  // they are for the thread that waits for them
    for (int worker = 1; worker < workers_of(chunks, threads); ++worker) {
      helpers.emplace_back([&queue, worker] { queue.serve(worker); });
    }
    queue.serve(0);
  }
  queue.rethrow();
}

}  // namespace lockstep::checkpoint
