// What the other hosts of a static job tell during a round, and whether they live.
#pragma once
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/rendezvous/static_store.h"

namespace lockstep::rendezvous {

struct StaticWatchSettings {
  Endpoint endpoint;
  std::string run_id;
  int node = 0;
  std::vector<std::optional<Agent>> agents;       // by node: whose signs of life are watched
  std::chrono::milliseconds period{250};          // between looks
  std::chrono::milliseconds answer_limit{2'500};  // for the store, before it counts as lost
  std::chrono::milliseconds lost{4'000};          // without a sign of life
};

/// A thread with its own connection. Node 0, where the store is, judges who was lost.
class StaticWatch {
 public:
  explicit StaticWatch(StaticWatchSettings settings);
  StaticWatch(const StaticWatch&) = delete;
  StaticWatch& operator=(const StaticWatch&) = delete;
  ~StaticWatch();

  /// Why a round is over on all hosts.
  struct Cause {
    std::optional<Record> failed;  // whose ranks failed
    bool asked_to_stop = false;
    bool store_lost = false;
    std::string because;  // for people
  };

  /// From here on the news of the round with that many restarts counts.
  void begin_round(int restart);
  /// Readable once there is a cause.
  [[nodiscard]] int fd() const { return told_.get(); }
  [[nodiscard]] std::optional<Cause> cause() const;
  [[nodiscard]] bool has_lost_store() const { return store_lost_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Life {
    std::string beat;
    Clock::time_point seen{};
  };

  void run();
  void look(StaticStore& store);
  void judge_lives(StaticStore& store, int restart, const StaticStore::News& news);
  void tell(Cause cause, int restart);

  StaticWatchSettings settings_;
  std::vector<int> watched_;
  std::map<int, Life> lives_;
  Fd told_;  // an eventfd
  Fd stop_;
  std::atomic<bool> store_lost_{false};
  mutable std::mutex mutex_;
  int restart_ = 0;
  std::optional<Cause> cause_;
  std::thread thread_;
};

}  // namespace lockstep::rendezvous
