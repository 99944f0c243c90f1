// Calls of a library that may block without end: a thread of their own issues them in order and
// notices when they are over.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace lockstep::comm {

/// What the calls go to. All but abort() runs on the thread.
class CallLibrary {
 public:
  virtual ~CallLibrary() = default;
  virtual void open() = 0;   // before the first call
  virtual void close() = 0;  // after the last, unless it was aborted
  /// Once, from a thread of its own: open() and calls that block return, and all calls end.
  virtual void abort() = 0;
};

/// One call; its owner may let go of it before it is over.
class Call {
 public:
  virtual ~Call() = default;
  /// Calls `listener` once, from any thread, when it ends well or badly. \pre the only listener.
  void on_end(std::function<void(bool ok)> listener);
  /// \throws what it ended with. \pre it has ended badly.
  void rethrow();

 private:
  friend class CallThread;
  // On the thread; both throw what went wrong.
  virtual void launch() = 0;
  [[nodiscard]] virtual bool is_over() = 0;

  void end(std::exception_ptr error);

  std::mutex mutex_;
  bool over_ = false;
  std::exception_ptr error_;
  std::function<void(bool ok)> listener_;
};

/// No member blocks longer than it says, whatever the library does: a thread that never comes back
/// is left to the end of the process.
class CallThread {
 public:
  explicit CallThread(std::shared_ptr<CallLibrary> library);
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;
  ~CallThread() { close(std::chrono::milliseconds(0)); }

  /// Starts the thread, which opens the library.
  void start();
  /// Whether the library is open, within `patience`. \throws what open() threw.
  [[nodiscard]] bool opened(std::chrono::milliseconds patience);
  /// Does not block. Once aborted, the call ends badly at once.
  void issue(const std::shared_ptr<Call>& call);
  /// Ends all calls badly. Does not block; may be called by anybody and more than once, also when
  /// all is over.
  void abort();
  /// Nothing more is issued. What is in flight gets `patience` to end, and then as long again to be
  /// aborted.
  void close(std::chrono::milliseconds patience);

 private:
  struct State;
  static void run(State& state);
  static void serve(State& state);
  static void launch(State& state, std::shared_ptr<Call> call);
  static void land(State& state);

  const std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
