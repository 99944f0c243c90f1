#include "lockstep/comm/shm/engine.h"

#include <sched.h>

#include <optional>
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
constexpr std::chrono::milliseconds kParked{1};      // while another thread drives
constexpr int kYieldsBeforeParking = 64;

/// Counts a thread that wants to drive for as long as it does.
class Waiting {
 public:
  explicit Waiting(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { count_.fetch_sub(1); }

 private:
  std::atomic<int>& count_;
};

std::string seconds_text(std::chrono::milliseconds time) {
  const auto ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

/// The right to advance operations, if no other thread has it. What is to be called for those that
/// ended is called when it is given back.
class Engine::Turn {
 public:
  enum class Taking { if_free, waits };

  explicit Turn(Engine& engine, Taking taking = Taking::if_free)
      : engine_(engine), lock_(engine.drive_, std::defer_lock) {
    if (taking == Taking::waits) {
      lock_.lock();
    } else {
      (void)lock_.try_lock();
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!lock_.owns_lock()) return;
    const auto actions = std::exchange(engine_.actions_, {});
    lock_.unlock();
    if (engine_.parked_count_.load(std::memory_order_acquire) > 0) engine_.parked_.notify_all();
    for (const auto& action : actions) {
      try {
        (*action)();
      } catch (const std::exception&) {  // not ours: its own future holds it
      }
    }
  }
  [[nodiscard]] bool taken() const { return lock_.owns_lock(); }

 private:
  Engine& engine_;
  std::unique_lock<std::mutex> lock_;
};

Engine::Engine(const Segment& segment, Options options)
    : segment_(segment),
      options_(std::move(options)),
      gathering_(segment),
      mail_(segment, writer_) {
  thread_ = std::thread([this] { run(); });
  thread_id_ = thread_.get_id();
}

Engine::~Engine() { close(); }

void Engine::close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(thread_mutex_);
    stop_ = true;
    thread_wakes_.notify_all();
  }
  closing_.store(true);
  segment_.wake(segment_.rank());
  thread_.join();
  const Turn turn(*this, Turn::Taking::waits);
  fail_all(std::make_exception_ptr(PeerLost({"LS-4002", "group " + options_.name,
                                             "the group was closed with this collective in flight",
                                             "wait for every collective before closing"})));
}

std::shared_ptr<Operation> Engine::issue(Request request) {
  auto operation = make_operation(segment_, writer_, gathering_, std::move(request));
  std::size_t queued = 0;
  {
    const std::lock_guard lock(queue_mutex_);
    if (over_) std::rethrow_exception(over_);
    queue_.push_back(operation);
    queued = queue_.size();
    queued_.store(true);
  }
  if (queued == 1) {  // enter at once: then the others need nothing more of this rank
    const Turn turn(*this);
    if (!turn.taken()) {
      segment_.wake(segment_.rank());  // whoever drives may sleep, waiting for a message
    } else if (!operation->started() && front() == operation.get()) {
      start(*operation);
    }
  }
  const Request& issued = operation->request();
  if (thread_sleeps_.load() || queued > 1 ||
      issued.count * bytes_of(issued.kind.type) >= kWakeFromBytes) {
    wake_thread();
  }
  return operation;
}

std::shared_ptr<Transfer> Engine::transfer(TransferRequest request) {
  auto transfer = std::make_shared<Transfer>(segment_, std::move(request));
  {
    const std::lock_guard lock(queue_mutex_);
    if (over_) std::rethrow_exception(over_);
    if (options_.flight != nullptr) options_.flight->started(transfer->request().ticket);
    mail_.post(transfer);
  }
  {
    const Turn turn(*this);
    if (turn.taken()) {
      advance_mail();
    } else {
      segment_.wake(segment_.rank());
    }
  }
  if (transfer->done()) return transfer;
  if (thread_sleeps_.load() || transfer->request().bytes >= kWakeFromBytes) {
    wake_thread();
  }
  return transfer;
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

/// One look at the messages and at the operation in front. \pre drive_ is held.
bool Engine::advance() {
  const bool moved = mail_.busy() && advance_mail();
  Operation* const current = front();
  if (current == nullptr) return moved;
  if (segment_.aborted()) {
    fail_all(abort_error());
    return true;
  }
  try {
    if (!current->started()) start(*current);
    if (!current->advance(progress_)) return moved;
    if (current->done()) end_front();
  } catch (const std::exception&) {
    give_up(std::current_exception());
  }
  return true;
}

/// Nobody gets a result any more, whatever went wrong here: the other ranks must hear of it.
void Engine::give_up(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Disagreement&) {  // told already
  } catch (const std::exception& other) {
    segment_.abort("rank " + std::to_string(segment_.rank()) + " failed: " + other.what());
  }
  fail_all(error);
}

bool Engine::advance_mail() {
  if (segment_.aborted()) {
    fail_all(abort_error());
    return true;
  }
  bool moved = false;
  ended_mail_.clear();
  try {
    moved = mail_.advance(ended_mail_);
  } catch (const std::exception&) {
    give_up(std::current_exception());
    return true;
  }
  ended_messages();
  return moved;
}

void Engine::ended_messages() {
  for (const auto& transfer : ended_mail_) {
    if (options_.flight != nullptr) {
      options_.flight->ended(transfer->request().ticket, transfer->error() == nullptr);
    }
    ended(*transfer);
  }
  ended_mail_.clear();
}

void Engine::ended(Completion& completion) {
  if (auto action = completion.take_action()) actions_.push_back(std::move(action));
}

void Engine::start(Operation& operation) {
  operation.start(progress_);
  front_since_ = Clock::now();
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
  this->ended(*ended);
  if (next != nullptr) start(*next);
}

void Engine::fail_all(std::exception_ptr error) {
  segment_.own().withdrawn.store(1, std::memory_order_seq_cst);  // buffers go back to their owners
  std::deque<std::shared_ptr<Operation>> failed;
  {
    const std::lock_guard lock(queue_mutex_);
    if (!over_) over_ = std::move(error);
    failed.swap(queue_);
    queued_.store(false, std::memory_order_release);
  }
  for (const auto& operation : failed) {
    if (options_.flight != nullptr) options_.flight->ended(operation->request().ticket, false);
    operation->fail(over_);
    ended(*operation);
  }
  mail_.fail_all(over_, ended_mail_);
  ended_messages();
}

std::exception_ptr Engine::abort_error() const {
  const auto [kind, reason] = segment_.end();
  if (kind == AbortKind::disagreement) return std::make_exception_ptr(Disagreement(reason));
  return std::make_exception_ptr(PeerLost(
      {"LS-4002", "rank " + std::to_string(segment_.rank()) + ", group " + options_.name, reason,
       "a peer ended or hangs: look for the first rank that failed, this one only "
       "noticed"}));
}

void Engine::wait(Operation& operation, std::chrono::milliseconds deadline) {
  if (!operation.done()) drive_until(operation, true, deadline);
  if (operation.error()) std::rethrow_exception(operation.error());
}

void Engine::wait(Transfer& transfer, std::chrono::milliseconds deadline) {
  if (!transfer.done()) drive_until(transfer, false, deadline);
  if (transfer.error()) std::rethrow_exception(transfer.error());
}

/// \param in_order it ends after all that were issued before it: trouble is with the one in front.
void Engine::drive_until(const Completion& wanted, bool in_order,
                         std::chrono::milliseconds deadline) {
  std::optional<Waiting> waiting(std::in_place, waiters_);
  const auto began = Clock::now();
  while (!wanted.done()) {
    if (closing_.load(std::memory_order_relaxed)) {  // close() is about to fail what is in flight
      ::sched_yield();
      continue;
    }
    const Turn turn(*this);
    if (!turn.taken()) {
      let_others_drive(wanted);
      if (Clock::now() - began > deadline) {
        segment_.abort("rank " + std::to_string(segment_.rank()) + " gave up after " +
                       seconds_text(deadline) + " while another thread of it waited, too");
      }
      continue;
    }
    WaitPolicy policy(options_.crowded || segment_.crowded());
    while (!wanted.done() && actions_.empty() &&
           !closing_.load()) {  // others may wait for what an action brings
      if (advance()) {
        policy.reset();
        continue;
      }
      const auto paused = policy.pause(segment_, [&] { return closing_.load() || advance(); });
      if (paused != WaitPolicy::Paused::slept) continue;
      const auto waited = Clock::now() - began;
      if (in_order) {
        look_at_front(waited, deadline);
      } else if (!wanted.done()) {
        look_for_trouble(wanted, waited, deadline);
      }
    }
  }
  waiting.reset();
  if (busy()) wake_thread();
}

void Engine::let_others_drive(const Completion& wanted) {
  segment_.wake(segment_.rank());  // the engine's thread may sleep with the right to drive
  for (int i = 0; i < kYieldsBeforeParking; ++i) {
    ::sched_yield();
    if (wanted.done()) return;
    const std::unique_lock free(drive_, std::try_to_lock);
    if (free.owns_lock()) return;
  }
  std::unique_lock lock(parked_mutex_);
  parked_count_.fetch_add(1, std::memory_order_acq_rel);
  parked_.wait_for(lock, kParked);
  parked_count_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Engine::poll(Completion& wanted) {
  if (!wanted.done()) {
    const Turn turn(*this);
    while (turn.taken() && !wanted.done() && advance()) {
    }
  }
  return wanted.done();
}

void Engine::look_at_front(Clock::duration waited, std::chrono::milliseconds deadline) {
  const Operation* const stuck = front();
  if (stuck != nullptr && stuck->started()) look_for_trouble(*stuck, waited, deadline);
}

/// Ends the group when what is waited for cannot end or takes too long.
void Engine::look_for_trouble(const Completion& stuck, Clock::duration waited,
                              std::chrono::milliseconds deadline) {
  // A rank may have done its part, and left, since this one last looked: it is missing only if that
  // still holds after another look at what it left behind.
  const int gone = stuck.deserter();
  const bool missed_before = suspect_of_ == &stuck && suspect_ == gone;
  suspect_of_ = &stuck;
  suspect_ = gone;
  if (gone >= 0 && missed_before) {
    segment_.abort(stuck.title() + ": rank " + std::to_string(gone) + " has left the group");
  } else if (waited > deadline) {
    segment_.abort(stuck.title() + ": " + stuck.missing() + "; rank " +
                   std::to_string(segment_.rank()) + " has waited for " +
                   seconds_text(std::chrono::duration_cast<std::chrono::milliseconds>(waited)));
  }
}

void Engine::run() {
  auto last_work = Clock::now();
  for (;;) {
    {
      std::unique_lock lock(thread_mutex_);
      const auto ready = [&] { return stop_ || kicked_; };
      // Sequentially consistent with issue() and transfer(): either the thread sees what was
      // issued, or the issuer sees that it sleeps.
      const bool rests = Clock::now() - last_work > kActiveFor;
      thread_sleeps_.store(rests);
      if (rests && !busy()) {
        thread_wakes_.wait(lock, ready);
      } else {
        thread_wakes_.wait_for(lock, kLook, ready);
      }
      thread_sleeps_.store(false);
      if (stop_) return;
      kicked_ = false;
    }
    if (!busy()) continue;
    last_work = Clock::now();
    run_while_busy();
  }
}

/// Drives until nothing is in flight or somebody who waits wants to.
void Engine::run_while_busy() {
  WaitPolicy policy(true);  // computing threads come first
  while (busy() && waiters_.load(std::memory_order_seq_cst) == 0) {
    const Turn turn(*this);
    if (!turn.taken()) return;
    if (advance()) {
      policy.reset();
    } else if (policy.pause(segment_, [&] { return waiters_.load() > 0 || advance(); }) ==
               WaitPolicy::Paused::slept) {
      look_at_deadlines();
    }
    const std::lock_guard stopping(thread_mutex_);
    if (stop_) return;
  }
}

/// Those that were given with the requests: futures have nobody who waits.
void Engine::look_at_deadlines() {
  const Operation* const stuck = front();
  if (stuck != nullptr && stuck->request().deadline.count() > 0) {
    look_at_front(Clock::now() - front_since_, stuck->request().deadline);
  } else if (const Transfer* const late = mail_.in_trouble()) {
    look_for_trouble(*late, late->age(), late->request().deadline);
  }
}

}  // namespace lockstep::comm::shm
