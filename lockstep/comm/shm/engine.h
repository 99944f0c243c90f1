// Drives the collectives of one rank in the order they were issued.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/shm/gather_steps.h"
#include "lockstep/comm/shm/mailbox.h"
#include "lockstep/comm/shm/operation.h"

namespace lockstep::comm::shm {

/// Thread-safe. Small collectives run in the caller; large ones on a thread of the engine's own
/// while nobody waits, and in the waiting thread as soon as somebody does.
class Engine {
 public:
  struct Options {
    bool crowded = false;  // more ranks than CPUs, also where the segment does not say so
    std::string name = "world";
    GroupFlight* flight = nullptr;  // where starts and ends are recorded; outlives the engine
  };

  Engine(const Segment& segment, Options options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  /// Collective, asynchronous. \throws PeerLost, Disagreement when the group is over.
  [[nodiscard]] std::shared_ptr<Operation> issue(Request request);
  /// \throws PeerLost (LS-4002) naming who is missing when `deadline` passes, or a rank ended;
  /// Disagreement (LS-4013) when ranks entered different collectives.
  void wait(Operation& operation, std::chrono::milliseconds deadline);

  /// A message to or from one other rank, asynchronous; transfers end in any order. \throws as
  /// issue().
  [[nodiscard]] std::shared_ptr<Transfer> transfer(TransferRequest request);
  void wait(Transfer& transfer, std::chrono::milliseconds deadline);

  /// Makes progress without waiting; true = it has ended.
  [[nodiscard]] bool poll(Completion& wanted);
  /// Somebody waits for the end of what is in flight without calling wait().
  void nudge() { wake_thread(); }
  /// A collective or a message is in flight.
  [[nodiscard]] bool busy() const { return queued_.load() || mail_.busy(); }
  /// Abandons what is in flight; nothing is issued any more.
  void close();
  [[nodiscard]] bool is_own_thread() const { return std::this_thread::get_id() == thread_id_; }

 private:
  using Clock = std::chrono::steady_clock;

  class Turn;

  void run();
  void run_while_busy();
  bool advance();
  bool advance_mail();
  void drive_until(const Completion& wanted, bool in_order, std::chrono::milliseconds deadline);
  void let_others_drive(const Completion& wanted);
  void ended(Completion& completion);
  void ended_messages();
  void start(Operation& operation);
  void end_front();
  void fail_all(std::exception_ptr error);
  void give_up(const std::exception_ptr& error);
  [[nodiscard]] std::exception_ptr abort_error() const;
  void look_for_trouble(const Completion& stuck, Clock::duration waited,
                        std::chrono::milliseconds deadline);
  void look_at_deadlines();
  void look_at_front(Clock::duration waited, std::chrono::milliseconds deadline);
  void wake_thread();
  [[nodiscard]] Operation* front();

  const Segment& segment_;
  const Options options_;

  std::mutex drive_;  // held by the thread that advances operations
  Progress progress_;
  RingWriter writer_;
  Gathering gathering_;
  const Completion* suspect_of_ = nullptr;  // what lacked a rank at the last look, and which
  int suspect_ = -1;
  Mailroom mail_;
  std::vector<std::shared_ptr<Transfer>> ended_mail_;         // room for advance_mail()
  std::vector<std::unique_ptr<Completion::Action>> actions_;  // to call when drive_ is free
  Clock::time_point front_since_;

  std::mutex queue_mutex_;  // held for some instructions
  std::deque<std::shared_ptr<Operation>> queue_;
  std::exception_ptr over_;  // the group has ended

  std::atomic<int> waiters_{0};  // threads that want to drive: the engine's own makes room
  std::atomic<bool> queued_{false};
  std::atomic<bool> closing_{false};  // threads that wait give up the right to drive
  std::mutex parked_mutex_;           // waiting threads that do not drive
  std::condition_variable parked_;
  std::atomic<int> parked_count_{0};
  std::mutex thread_mutex_;
  std::condition_variable thread_wakes_;
  std::atomic<bool> thread_sleeps_{false};
  bool kicked_ = false;
  bool stop_ = false;
  std::thread thread_;
  std::thread::id thread_id_;
};

}  // namespace lockstep::comm::shm
