#include "lockstep/comm/shm/engine.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/shm/wait_policy.h"

namespace lockstep::comm::shm {
namespace {

// Waking the thread costs the caller a system call and, on a busy machine, its core. What is
// smaller is left to the next look of the thread, or to whoever waits.
constexpr std::size_t kWakeFromBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kLook{2};        // while collectives come
constexpr std::chrono::milliseconds kActiveFor{50};  // after the last one

std::string seconds_text(std::chrono::milliseconds time) {
  const auto ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

Engine::Engine(const Segment& segment, Options options)
    : segment_(segment), options_(std::move(options)) {
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(thread_mutex_);
    stop_ = true;
    thread_wakes_.notify_all();
  }
  segment_.wake(segment_.rank());
  thread_.join();
  const std::lock_guard lock(drive_);
  fail_all(std::make_exception_ptr(PeerLost({"LS-4002", "group " + options_.name,
                                             "the group was closed with this collective in flight",
                                             "wait for every collective before closing"})));
}

std::shared_ptr<Operation> Engine::issue(Request request) {
  auto operation = make_operation(segment_, writer_, std::move(request));
  std::size_t queued = 0;
  {
    const std::lock_guard lock(queue_mutex_);
    if (over_) std::rethrow_exception(over_);
    queue_.push_back(operation);
    queued = queue_.size();
    queued_.store(true, std::memory_order_release);
  }
  if (queued == 1) {  // enter at once: then the others need nothing more of this rank
    const std::unique_lock lock(drive_, std::try_to_lock);
    if (lock.owns_lock() && !operation->started() && front() == operation.get()) {
      start(*operation);
    }
  }
  const Request& issued = operation->request();
  if (thread_sleeps_.load(std::memory_order_acquire) || queued > 1 ||
      issued.count * bytes_of(issued.kind.type) >= kWakeFromBytes) {
    wake_thread();
  }
  return operation;
}

Operation* Engine::front() {
  const std::lock_guard lock(queue_mutex_);
  return queue_.empty() ? nullptr : queue_.front().get();
}

void Engine::wake_thread() {
  const std::lock_guard lock(thread_mutex_);
  kicked_ = true;
  thread_wakes_.notify_all();
}

/// One look at the operation in front. \pre drive_ is held.
bool Engine::advance() {
  Operation* const current = front();
  if (current == nullptr) return false;
  if (segment_.aborted()) {
    fail_all(abort_error());
    return true;
  }
  try {
    if (!current->started()) start(*current);
    if (!current->advance(progress_)) return false;
    if (current->done()) end_front();
  } catch (const Disagreement&) {
    fail_all(std::current_exception());
  }
  return true;
}

void Engine::start(Operation& operation) {
  operation.start(progress_);
  if (options_.flight != nullptr) options_.flight->started(operation.request().ticket);
}

void Engine::end_front() {
  std::shared_ptr<Operation> ended;
  Operation* next = nullptr;
  {
    const std::lock_guard lock(queue_mutex_);
    ended = std::move(queue_.front());
    queue_.pop_front();
    if (queue_.empty()) {
      queued_.store(false, std::memory_order_release);
    } else {
      next = queue_.front().get();
    }
  }
  if (options_.flight != nullptr) options_.flight->ended(ended->request().ticket, true);
  if (next != nullptr) start(*next);
}

void Engine::fail_all(std::exception_ptr error) {
  std::deque<std::shared_ptr<Operation>> failed;
  {
    const std::lock_guard lock(queue_mutex_);
    if (!over_) over_ = std::move(error);
    failed.swap(queue_);
    queued_.store(false, std::memory_order_release);
  }
  for (const auto& operation : failed) {
    operation->fail(over_);
    if (options_.flight != nullptr) options_.flight->ended(operation->request().ticket, false);
  }
}

std::exception_ptr Engine::abort_error() const {
  const std::string reason = segment_.abort_reason();
  if (reason.starts_with("collective #")) return std::make_exception_ptr(Disagreement(reason));
  return std::make_exception_ptr(PeerLost(
      {"LS-4002", "rank " + std::to_string(segment_.rank()) + ", group " + options_.name, reason,
       "a peer ended or hangs: look for the first rank that failed, this one only "
       "noticed"}));
}

void Engine::wait(Operation& operation, std::chrono::milliseconds deadline) {
  if (!operation.done()) {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    std::unique_lock lock(drive_, std::try_to_lock);
    if (!lock.owns_lock()) {
      segment_.wake(segment_.rank());  // the engine's thread may sleep with the lock
      lock.lock();
    }
    WaitPolicy policy(options_.crowded);
    const auto began = Clock::now();
    while (!operation.done()) {
      if (advance()) {
        policy.reset();
        continue;
      }
      const auto paused = policy.pause(segment_, [&] { return advance(); });
      if (paused == WaitPolicy::Paused::slept) look_for_trouble(Clock::now() - began, deadline);
    }
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    if (queued_.load(std::memory_order_acquire)) wake_thread();
  }
  if (operation.error()) std::rethrow_exception(operation.error());
}

bool Engine::poll(Operation& operation) {
  if (!operation.done()) {
    const std::unique_lock lock(drive_, std::try_to_lock);
    if (lock.owns_lock()) {
      while (!operation.done() && advance()) {
      }
    }
  }
  return operation.done();
}

/// Ends the group when the operation in front cannot end or takes too long.
void Engine::look_for_trouble(Clock::duration waited, std::chrono::milliseconds deadline) {
  const Operation* const stuck = front();
  if (stuck == nullptr || !stuck->started()) return;
  const std::string what =
      std::string(name(stuck->request().kind.collective)) + " #" +
      std::to_string(stuck->sequence()) +
      (stuck->request().site.empty() ? "" : " (" + stuck->request().site + ")") + ": ";
  if (const int gone = stuck->deserter(); gone >= 0) {
    segment_.abort(what + "rank " + std::to_string(gone) + " has left the group");
  } else if (waited > deadline) {
    segment_.abort(what + stuck->missing() + "; rank " + std::to_string(segment_.rank()) +
                   " has waited for " +
                   seconds_text(std::chrono::duration_cast<std::chrono::milliseconds>(waited)));
  }
}

void Engine::run() {
  auto last_work = Clock::now();
  for (;;) {
    {
      std::unique_lock lock(thread_mutex_);
      const bool idle = !queued_.load(std::memory_order_acquire);
      const bool resting = idle && Clock::now() - last_work > kActiveFor;
      const auto ready = [&] { return stop_ || kicked_; };
      if (resting) {
        thread_sleeps_.store(true, std::memory_order_release);
        thread_wakes_.wait(lock, ready);
        thread_sleeps_.store(false, std::memory_order_release);
      } else {
        thread_wakes_.wait_for(lock, kLook, ready);
      }
      if (stop_) return;
      kicked_ = false;
    }
    if (queued_.load(std::memory_order_acquire)) last_work = Clock::now();
    WaitPolicy policy(true);  // computing threads come first
    while (queued_.load(std::memory_order_acquire) &&
           waiters_.load(std::memory_order_seq_cst) == 0) {
      const std::unique_lock lock(drive_, std::try_to_lock);
      if (!lock.owns_lock()) break;
      if (advance()) {
        policy.reset();
      } else {
        policy.pause(segment_, [&] { return waiters_.load() > 0 || advance(); });
      }
      const std::lock_guard stopping(thread_mutex_);
      if (stop_) return;
    }
  }
}

}  // namespace lockstep::comm::shm
