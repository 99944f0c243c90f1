// A clock and a network for simulations: one thread, events in the order of their times, all draws
// from one seed.
#pragma once
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/rng.h"

namespace lockstep::rendezvous::testing {

/// True time and what is to happen.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : rng_(mix(seed)) {}

  [[nodiscard]] double now_s() const { return now_s_; }
  void at(double time_s, std::function<void()> action) {
    events_.push({std::max(time_s, now_s_), next_++, std::move(action)});
  }
  void after(double delay_s, std::function<void()> action) {
    at(now_s_ + delay_s, std::move(action));
  }
  /// One event. \returns false when there is none.
  bool step() {
    if (events_.empty()) return false;
    auto action = std::move(const_cast<Event&>(events_.top()).action);  // its order stays
    now_s_ = events_.top().time_s;
    events_.pop();
    action();
    return true;
  }
  [[nodiscard]] std::uint64_t steps() const { return next_; }

  [[nodiscard]] double uniform(double from, double to) {
    return from + (to - from) * rng_.uniform();
  }
  [[nodiscard]] bool chance(double probability) { return rng_.uniform() < probability; }
  [[nodiscard]] int below(int bound) {
    return static_cast<int>(rng_.below(static_cast<std::uint64_t>(bound)));
  }

 private:
  struct Event {
    double time_s;
    std::uint64_t order;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return time_s != other.time_s ? time_s > other.time_s : order > other.order;
    }
  };
  Rng rng_;
  double now_s_ = 0;
  std::uint64_t next_ = 0;
  std::priority_queue<Event> events_;
};

/// Which hosts reach which, and how long it takes.
class Network {
 public:
  Network(Simulation& simulation, int endpoints)
      : simulation_(simulation), endpoints_(static_cast<std::size_t>(endpoints)) {
    delay_s_ = std::exp(simulation.uniform(std::log(1e-4), std::log(0.1)));
    loss_ = simulation.chance(0.5) ? 0 : simulation.uniform(0, 0.05);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  /// Messages that never arrived may hold the connection they are on: they go with the network.
  ~Network() {
    std::vector<std::function<void()>> undelivered;
    for (auto* messages : *undelivered_) {
      for (Message& message : *messages) undelivered.push_back(std::move(message.arrival));
      messages->clear();
    }
  }

  [[nodiscard]] bool is_blocked(int from, int to) const {
    const Endpoint& one = endpoints_[static_cast<std::size_t>(from)];
    const Endpoint& other = endpoints_[static_cast<std::size_t>(to)];
    return from != to && (one.is_mute || other.is_deaf || one.island != other.island);
  }
  void set_mute(int endpoint, bool value) { endpoints_.at(std::size_t(endpoint)).is_mute = value; }
  void set_deaf(int endpoint, bool value) { endpoints_.at(std::size_t(endpoint)).is_deaf = value; }
  void set_island(int endpoint, int island) {
    endpoints_.at(std::size_t(endpoint)).island = island;
  }

  /// Of one message; a lost packet comes late, as over TCP.
  [[nodiscard]] double draw_delay_s(int from, int to) {
    if (from == to) return 1e-5;
    double delay_s = delay_s_ * simulation_.uniform(1, 2);
    for (int i = 0; i < kMostLosses && simulation_.chance(loss_); ++i) {
      delay_s += simulation_.uniform(0.2, 0.4);
    }
    return delay_s;
  }
  [[nodiscard]] Simulation& simulation() { return simulation_; }

  struct Message {
    double ready_s;
    bool is_state;
    std::function<void()> arrival;
  };
  using Queues = std::set<std::deque<Message>*>;
  /// Of all connections that there are.
  [[nodiscard]] const std::shared_ptr<Queues>& undelivered() const { return undelivered_; }

 private:
  static constexpr int kMostLosses = 2;  // in a row: more is a fault
  struct Endpoint {
    bool is_mute = false;
    bool is_deaf = false;
    int island = 0;
  };
  Simulation& simulation_;
  std::vector<Endpoint> endpoints_;
  double delay_s_;
  double loss_;
  std::shared_ptr<Queues> undelivered_ = std::make_shared<Queues>();
};

/// One direction of a connection: what was sent comes in order, or not at all once it is closed.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Network& network, int from, int to)
      : network_(network), from_(from), to_(to), undelivered_(network.undelivered()) {
    undelivered_->insert(&messages_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { undelivered_->erase(&messages_); }

  void send(std::function<void()> arrival) { push({ready_s(), false, std::move(arrival)}); }
  /// Takes the place of an older one that has not left yet, as a state does that nobody has read.
  void send_newest(std::function<void()> arrival) {
    for (Message& message : messages_) {
      if (!message.is_state || &message == &messages_.front()) continue;
      message.arrival = std::move(arrival);
      return;
    }
    push({ready_s(), true, std::move(arrival)});
  }
  void close() { is_closed_ = true; }
  [[nodiscard]] bool is_closed() const { return is_closed_; }

 private:
  using Message = Network::Message;

  double ready_s() {
    last_s_ = std::max(last_s_, network_.simulation().now_s() + network_.draw_delay_s(from_, to_));
    return last_s_;
  }
  void push(Message message) {
    messages_.push_back(std::move(message));
    if (messages_.size() == 1) wait_until(messages_.front().ready_s);
  }
  void wait_until(double time_s) {
    network_.simulation().at(time_s, [self = shared_from_this()] { self->deliver(); });
  }
  void deliver() {
    if (is_closed_) return messages_.clear();
    Simulation& simulation = network_.simulation();
    if (network_.is_blocked(from_, to_)) {
      return wait_until(simulation.now_s() + simulation.uniform(0.2, 0.8));  // sent again
    }
    const auto arrival = std::move(messages_.front().arrival);
    messages_.pop_front();
    if (!messages_.empty()) wait_until(std::max(messages_.front().ready_s, simulation.now_s()));
    arrival();
  }

  Network& network_;
  int from_;
  int to_;
  std::shared_ptr<Network::Queues> undelivered_;
  std::deque<Message> messages_;
  double last_s_ = 0;
  bool is_closed_ = false;
};

}  // namespace lockstep::rendezvous::testing
