#include "lockstep/comm/call_thread.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// How long after its end a call may be noticed: a sixteenth of its time, within these bounds.
constexpr microseconds kShortestLook{20};
constexpr microseconds kLongestLook{500};
constexpr unsigned long kTimerSlackNs = 1000;  // the default, 50 us, is longer than a small call

std::exception_ptr aborted_error() {
  return std::make_exception_ptr(std::runtime_error("it was aborted"));
}

}  // namespace

void Call::on_end(std::function<void(bool ok)> listener) {
  {
    const std::lock_guard lock(mutex_);
    if (!over_) {
      listener_ = std::move(listener);
      return;
    }
  }
  listener(error_ == nullptr);
}

void Call::rethrow() {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void Call::end(std::exception_ptr error) {
  std::function<void(bool ok)> listener;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    error_ = std::move(error);
    listener = std::exchange(listener_, nullptr);
  }
  if (listener) listener(error_ == nullptr);
}

/// Shared with the thread, which may outlive the object.
struct CallThread::State {
  struct Flight {
    std::shared_ptr<Call> call;
    Clock::time_point since;
  };

  explicit State(std::shared_ptr<CallLibrary> given) : library(std::move(given)) {}
  [[nodiscard]] bool may_end() const { return in_flight.empty() && (stop || aborted.load()); }

  const std::shared_ptr<CallLibrary> library;
  std::atomic<bool> aborted{false};
  std::deque<Flight> in_flight;  // the thread's

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Call>> waiting;
  bool is_open = false;
  std::exception_ptr open_error;
  bool stop = false;
  bool ended = true;  // there is no thread
};

CallThread::CallThread(std::shared_ptr<CallLibrary> library)
    : state_(std::make_shared<State>(std::move(library))) {}

void CallThread::start() {
  const std::lock_guard lock(state_->mutex);  // it says that it has ended only after this
  std::thread([state = state_] { run(*state); }).detach();
  state_->ended = false;
}

void CallThread::run(State& state) {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  std::exception_ptr error;
  try {
    state.library->open();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(state.mutex);
    state.is_open = error == nullptr;
    state.open_error = error;
    state.changed.notify_all();
  }
  if (error == nullptr) serve(state);
  try {
    if (error == nullptr && !state.aborted.load()) state.library->close();
  } catch (...) {  // nobody is left who could do anything about it
  }
  std::deque<std::shared_ptr<Call>> left;
  {
    const std::lock_guard lock(state.mutex);
    state.ended = true;
    left = std::move(state.waiting);
    state.changed.notify_all();
  }
  for (const auto& call : left) call->end(aborted_error());
}

void CallThread::serve(State& state) {
  for (;;) {
    std::shared_ptr<Call> call;
    {
      std::unique_lock lock(state.mutex);
      const auto come = [&] { return !state.waiting.empty(); };
      if (state.in_flight.empty()) {
        state.changed.wait(lock, [&] { return come() || state.may_end(); });
      } else {
        const auto age = Clock::now() - state.in_flight.front().since;
        const auto look = std::chrono::duration_cast<microseconds>(age / 16);
        state.changed.wait_for(lock, std::clamp(look, kShortestLook, kLongestLook), come);
      }
      if (come()) {
        call = std::move(state.waiting.front());
        state.waiting.pop_front();
      } else if (state.may_end()) {
        return;
      }
    }
    if (call != nullptr) launch(state, std::move(call));
    land(state);
  }
}

void CallThread::launch(State& state, std::shared_ptr<Call> call) {
  if (state.aborted.load()) return call->end(aborted_error());
  try {
    call->launch();
  } catch (...) {
    return call->end(std::current_exception());
  }
  state.in_flight.push_back({std::move(call), Clock::now()});
}

/// They end in the order they were issued in.
void CallThread::land(State& state) {
  while (!state.in_flight.empty()) {
    const std::shared_ptr<Call> call = state.in_flight.front().call;
    std::exception_ptr error;
    try {
      if (!call->is_over()) return;
      // Asked for after it was over: what an abort cut off is never taken for a result.
      if (state.aborted.load()) error = aborted_error();
    } catch (...) {
      error = std::current_exception();
    }
    state.in_flight.pop_front();
    call->end(std::move(error));
  }
}

bool CallThread::opened(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, patience,
                           [&] { return state_->is_open || state_->open_error != nullptr; });
  if (state_->open_error != nullptr) std::rethrow_exception(state_->open_error);
  return state_->is_open;
}

void CallThread::issue(const std::shared_ptr<Call>& call) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->ended && !state_->aborted.load()) {
      state_->waiting.push_back(call);
      state_->changed.notify_all();
      return;
    }
  }
  call->end(aborted_error());
}

void CallThread::abort() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ended || state_->aborted.exchange(true)) return;
    state_->changed.notify_all();
  }
  const auto abort_library = [library = state_->library] {
    try {
      library->abort();
    } catch (...) {  // it is over either way
    }
  };
  try {
    std::thread(abort_library).detach();
  } catch (const std::system_error&) {  // no thread is left
    abort_library();
  }
}

void CallThread::close(std::chrono::milliseconds patience) {
  const auto ended = [this] { return state_->ended; };
  {
    std::unique_lock lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
    if (state_->changed.wait_for(lock, patience, ended)) return;
  }
  abort();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, patience, ended);
}

}  // namespace lockstep::comm
