// Something that ends later and once: a collective, or a transfer between two ranks.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace lockstep::comm::shm {

class Completion {
 public:
  using Action = std::function<void()>;

  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  virtual ~Completion() { delete_action(action_.load(std::memory_order_acquire)); }

  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
  /// Ends it with an error that every later wait throws.
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    complete();
  }
  /// Read it when done().
  [[nodiscard]] std::exception_ptr error() const { return error_; }

  /// Calls `action` when it has ended, on the thread that notices and under no lock; at once when
  /// that was before. One action at most.
  void when_done(Action action) {
    auto* const given = new Action(std::move(action));
    Action* none = nullptr;
    if (action_.compare_exchange_strong(none, given, std::memory_order_acq_rel)) return;
    (*given)();
    delete given;
  }
  /// What is to be called now that it is done; null = nothing. Later actions are called at once.
  [[nodiscard]] std::unique_ptr<Action> take_action() {
    return std::unique_ptr<Action>(action_.exchange(taken(), std::memory_order_acq_rel));
  }

  /// "all_reduce #3 (bucket 4)", "receiving from rank 1 (tag 7)".
  [[nodiscard]] virtual std::string title() const = 0;
  /// "rank 1 has not entered it".
  [[nodiscard]] virtual std::string missing() const = 0;
  /// A rank that this one still needs and that has left the group; -1 = none.
  [[nodiscard]] virtual int deserter() const = 0;

 protected:
  void complete() { done_.store(true, std::memory_order_release); }

 private:
  static Action* taken() {
    static Action mark;
    return &mark;
  }
  static void delete_action(Action* action) {
    if (action != taken()) delete action;
  }

  std::exception_ptr error_;
  std::atomic<bool> done_{false};
  std::atomic<Action*> action_{nullptr};
};

}  // namespace lockstep::comm::shm
