// The board of a simulation that a service keeps, with leases and fenced writes, as etcd does.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/rendezvous/simulated_board_testing.h"
#include "lockstep/rendezvous/simulated_network_testing.h"

namespace lockstep::rendezvous::testing {

/// Keys with leases at an endpoint of its own.
class SimulatedEtcdBoard final : public SimulatedBoard {
 public:
  static constexpr double kLeaseS = 3;

  SimulatedEtcdBoard(Network& network, Agents& agents, int endpoint)
      : network_(network),
        simulation_(network.simulation()),
        agents_(agents),
        endpoint_(endpoint) {}

  void come(int agent) override {
    clients_.resize(std::max(clients_.size(), static_cast<std::size_t>(agent) + 1));
    Client& own = clients_[static_cast<std::size_t>(agent)];
    const int host = agents_.host_of(agent);
    own.up = std::make_shared<Link>(network_, host, endpoint_);
    own.answers = std::make_shared<Link>(network_, endpoint_, host);
    own.watch = std::make_shared<Link>(network_, endpoint_, host);
  }

  void publish(int agent, const RecordPointer& record, double published_s) override {
    send(agent, [=, this] { put(agent, record, published_s); });
  }

  void announce(int agent, const StatePointer& state) override {
    send(agent, [=, this, term = client(agent).term] {
      if (leader_ != agent || term != term_) return;
      state_ = state;
      for (const auto& [other, lease] : leases_) push_state(other);
    });
  }

  void leave(int agent) override {
    send(agent, [=, this] { end_lease(agent, false); });
  }
  void die(int agent) override {
    if (!agents_.is_host_up(agents_.host_of(agent))) client(agent).up->close();
  }
  void forget() override {
    leases_.clear();
    state_.reset();
    leader_ = -1;
    ++term_;
    ++lineage_;
  }
  [[nodiscard]] int lineage(int agent) override { return client(agent).lineage; }

 private:
  struct Client {
    std::shared_ptr<Link> up;
    std::shared_ptr<Link> answers;
    std::shared_ptr<Link> watch;  // does not keep the order of the answers
    std::uint64_t term = 0;       // the newest that the agent knows of
    bool is_leading = false;      // in that
    int lineage = 0;              // of the newest state that it was told
    std::uint64_t version = 0;    // of that state
  };
  struct Lease {
    RecordPointer record;
    double until_s = 0;
  };

  Client& client(int agent) { return clients_[static_cast<std::size_t>(agent)]; }
  [[nodiscard]] bool has_lease(int agent) const { return leases_.contains(agent); }

  void send(int agent, std::function<void()> arrival) {
    client(agent).up->send(std::move(arrival));
  }

  /// One transaction: the record, the lease, who leads, the state.
  void put(int agent, const RecordPointer& record, double published_s) {
    const bool is_new = !has_lease(agent);
    Lease& lease = leases_[agent];
    lease.record = record;
    lease.until_s = simulation_.now_s() + kLeaseS;
    if (is_new) watch_lease(agent);
    if (leader_ < 0 && !record->finished) lead(agent);
    if (leader_ >= 0 && leader_ != agent) push_record(leader_, record);
    client(agent).answers->send([=, this, news = news_for(agent)] {
      agents_.run_as(agent, [=, this] {
        take_news(agent, news);
        if (news.state) tell_state(agent, news.state, news.lineage);
        agents_.tell(agent, Heard{published_s});
      });
    });
  }

  /// Who leads, as one agent is told.
  struct News {
    std::uint64_t term;
    bool leads;
    StatePointer state;
    int lineage;
  };
  [[nodiscard]] News news_for(int agent) const {
    return {term_, leader_ == agent, state_, lineage_};
  }

  void tell_state(int agent, const StatePointer& state, int lineage) {
    Client& own = client(agent);
    if (state->version > own.version) {  // an older one is not followed
      own.version = state->version;
      own.lineage = lineage;
    }
    agents_.tell(agent, StateCame{state});
  }

  void take_news(int agent, const News& news) {
    Client& own = client(agent);
    if (news.term <= own.term) return;
    own.term = news.term;
    if (std::exchange(own.is_leading, news.leads)) agents_.tell(agent, NotLeading{});
    if (!news.leads) return;
    own.lineage = news.lineage;
    agents_.tell(agent, Leading{news.state});
  }

  void lead(int agent) {
    leader_ = agent;
    ++term_;
    push_news(agent);
    for (const auto& [other, lease] : leases_) {
      if (other != agent) push_record(agent, lease.record);
    }
    push_listed(agent);
  }

  void push_listed(int to) {
    client(to).watch->send([=, this, term = term_] {
      agents_.run_as(to, [=, this] {
        if (client(to).term == term) agents_.tell(to, AllListed{});
      });
    });
  }

  void push_news(int to) {
    client(to).watch->send(
        [=, this, news = news_for(to)] { agents_.run_as(to, [=, this] { take_news(to, news); }); });
  }

  void push_record(int to, const RecordPointer& record) {
    client(to).watch->send(
        [=, this] { agents_.run_as(to, [=, this] { agents_.tell(to, RecordCame{record}); }); });
  }

  void push_state(int to) {
    client(to).watch->send([=, this, state = state_, lineage = lineage_] {
      agents_.run_as(to, [=, this] { tell_state(to, state, lineage); });
    });
  }

  void watch_lease(int agent) {
    simulation_.at(leases_.at(agent).until_s, [=, this] {
      const auto lease = leases_.find(agent);
      if (lease == leases_.end()) return;
      if (simulation_.now_s() < lease->second.until_s) return watch_lease(agent);
      end_lease(agent, true);
    });
  }

  void end_lease(int agent, bool is_expired) {
    if (leases_.erase(agent) == 0) return;
    if (leader_ == agent) {
      leader_ = -1;
      ++term_;
      push_news(agent);
      for (const auto& [other, lease] : leases_) offer_lead(other);
    } else if (leader_ >= 0) {
      const int leader = leader_;
      client(leader).watch->send([=, this] {
        agents_.run_as(leader, [=, this] {
          agents_.tell(leader, AgentGone{agents_.id_of(agent), is_expired});
        });
      });
    }
  }

  /// Watchers see that nobody leads; the first that asks does.
  void offer_lead(int agent) {
    client(agent).watch->send([=, this] {
      agents_.run_as(agent, [=, this] {
        send(agent, [=, this] {
          const auto own = leases_.find(agent);
          if (own == leases_.end() || leader_ >= 0 || own->second.record->finished) return;
          lead(agent);
        });
      });
    });
  }

  Network& network_;
  Simulation& simulation_;
  Agents& agents_;
  int endpoint_;
  std::vector<Client> clients_;
  std::map<int, Lease> leases_;
  StatePointer state_;
  int leader_ = -1;
  int lineage_ = 0;         // how often it has forgotten all
  std::uint64_t term_ = 0;  // fences what an earlier leader announces
};

}  // namespace lockstep::rendezvous::testing
