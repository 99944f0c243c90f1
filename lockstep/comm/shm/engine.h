// Drives the collectives of one rank in the order they were issued.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/shm/operation.h"

namespace lockstep::comm::shm {

/// Thread-safe. Small collectives run in the caller; large ones on a thread of the engine's own
/// while nobody waits, and in the waiting thread as soon as somebody does.
class Engine {
 public:
  struct Options {
    bool crowded = false;  // more ranks than cores
    std::string name = "world";
    GroupFlight* flight = nullptr;  // where starts and ends are recorded; outlives the engine
  };

  Engine(const Segment& segment, Options options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Abandons what is in flight.
  ~Engine();

  /// Collective, asynchronous. \throws PeerLost, Disagreement when the group is over.
  [[nodiscard]] std::shared_ptr<Operation> issue(Request request);
  /// \throws PeerLost (LS-4002) naming who is missing when `deadline` passes, or a rank ended;
  /// Disagreement (LS-4013) when ranks entered different collectives.
  void wait(Operation& operation, std::chrono::milliseconds deadline);
  /// Makes progress without waiting.
  [[nodiscard]] bool poll(Operation& operation);

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool advance();
  void start(Operation& operation);
  void end_front();
  void fail_all(std::exception_ptr error);
  [[nodiscard]] std::exception_ptr abort_error() const;
  void look_for_trouble(Clock::duration waited, std::chrono::milliseconds deadline);
  void wake_thread();
  [[nodiscard]] Operation* front();

  const Segment& segment_;
  const Options options_;

  std::mutex drive_;  // held by the thread that advances operations
  Progress progress_;
  RingWriter writer_;

  std::mutex queue_mutex_;  // held for some instructions
  std::deque<std::shared_ptr<Operation>> queue_;
  std::exception_ptr over_;  // the group has ended

  std::atomic<int> waiters_{0};  // threads that want to drive: the engine's own makes room
  std::atomic<bool> queued_{false};
  std::mutex thread_mutex_;
  std::condition_variable thread_wakes_;
  std::atomic<bool> thread_sleeps_{false};
  bool kicked_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm::shm
