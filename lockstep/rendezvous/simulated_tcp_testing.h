// The board of a simulation that the leader serves itself, as over TCP.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/rendezvous/simulated_board_testing.h"
#include "lockstep/rendezvous/simulated_network_testing.h"

namespace lockstep::rendezvous::testing {

/// Served by the first agent of host 0.
class SimulatedTcpBoard final : public SimulatedBoard {
 public:
  SimulatedTcpBoard(Network& network, Agents& agents, bool keeps_marks)
      : network_(network),
        simulation_(network.simulation()),
        agents_(agents),
        keeps_marks_(keeps_marks) {}

  void come(int agent) override {
    clients_.resize(std::max(clients_.size(), static_cast<std::size_t>(agent) + 1));
    try_to_connect(agent);
  }

  void publish(int agent, const RecordPointer& record, double published_s) override {
    Client& own = client(agent);
    own.record = record;
    own.published_s = published_s;
    if (server_ == agent) {
      agents_.run_as(agent, [=, this] { agents_.tell(agent, Heard{published_s}); });
    } else if (own.up) {
      send_record(agent);
    }
  }

  void announce(int agent, const StatePointer& state) override {
    if (server_ != agent) return;
    state_ = client(agent).state = state;
    if (state->phase == JobState::Phase::ended) has_mark_ = false;
    simulation_.after(0, [=, this] {
      agents_.run_as(agent, [=, this] { agents_.tell(agent, StateCame{state}); });
    });
    for (const int peer : peers_) send_state(peer);
  }

  void leave(int agent) override { break_connections(agent, true); }
  void die(int agent) override {
    break_connections(agent, agents_.is_host_up(agents_.host_of(agent)));
  }
  [[nodiscard]] int lineage(int agent) override { return client(agent).lineage; }

 private:
  struct Client {
    RecordPointer record;
    double published_s = 0;
    StatePointer state;  // the newest that came
    std::shared_ptr<Link> up;
    std::shared_ptr<Link> down;
    int server = -1;  // of the connection
    int lineage = 0;  // of the leader it has followed
    double answered_s = 0;
    double refused_since_s = -1;
    std::uint64_t connection = 0;
  };

  Client& client(int agent) { return clients_[static_cast<std::size_t>(agent)]; }

  void try_to_connect(int agent) {
    if (!agents_.is_alive(agent) || server_ == agent || client(agent).up) return;
    agents_.run_as(agent, [=, this] {
      if (server_ == agent || client(agent).up) return;
      connect(agent);
    });
  }

  void again(int agent, double delay_s) {
    simulation_.after(delay_s, [=, this] { try_to_connect(agent); });
  }

  void connect(int agent) {
    Client& own = client(agent);
    const int host = agents_.host_of(agent);
    if (host == 0 && server_ < 0) return serve(agent);
    if (network_.is_blocked(host, 0) || network_.is_blocked(0, host) || !agents_.is_host_up(0)) {
      return again(agent, simulation_.uniform(0.5, 1.5));
    }
    if (server_ < 0) return refused(agent);
    own.refused_since_s = -1;
    const bool is_bound = own.state && own.state->generation > 0;
    if (is_bound && own.lineage != lineage_) {
      return agents_.fail(agent, "the leader of this job has gone, another one has begun");
    }
    own.lineage = lineage_;
    own.server = server_;
    own.up = std::make_shared<Link>(network_, host, 0);
    own.down = std::make_shared<Link>(network_, 0, host);
    own.answered_s = simulation_.now_s();
    ++own.connection;
    peers_.insert(agent);
    if (own.record) send_record(agent);
    if (state_) send_state(agent);
    watch_silence(agent, own.connection);
  }

  void refused(int agent) {
    Client& own = client(agent);
    if (own.refused_since_s < 0) own.refused_since_s = simulation_.now_s();
    if (own.lineage != 0 && simulation_.now_s() > own.refused_since_s + 3) {
      return agents_.fail(agent, "the agent that led the job has ended");
    }
    again(agent, simulation_.uniform(0.1, 0.3));
  }

  void serve(int agent) {
    Client& own = client(agent);
    server_ = agent;
    if (own.lineage == 0 || !own.state) own.lineage = ++newest_lineage_;
    lineage_ = own.lineage;
    state_ = own.state;
    Leading leading{own.state};
    if (has_mark_ && keeps_marks_)
      leading.led_until_s = agents_.now_of(agent) - (simulation_.now_s() - ended_s_);
    has_mark_ = true;
    agents_.tell(agent, leading);
    if (own.record) agents_.tell(agent, Heard{own.published_s});
  }

  void send_record(int agent) {
    const Client& own = client(agent);
    const int server = own.server;
    own.up->send([=, this, record = own.record, published_s = own.published_s, down = own.down] {
      if (server_ != server) return reset(agent, down);
      agents_.run_as(server, [=, this] {
        if (server_ != server || !agents_.is_alive(server)) return;
        agents_.tell(server, RecordCame{record});
        down->send([=, this] {
          agents_.run_as(agent, [=, this] {
            if (client(agent).down != down) return;
            client(agent).answered_s = simulation_.now_s();
            agents_.tell(agent, Heard{published_s});
          });
        });
      });
    });
  }

  /// The process that served it has gone, its host says.
  void reset(int agent, const std::shared_ptr<Link>& down) {
    if (client(agent).down != down || !agents_.is_host_up(0)) return;
    disconnect(agent);
    again(agent, 0.1);
  }

  void send_state(int agent) {
    const std::shared_ptr<Link> down = client(agent).down;
    down->send_newest([=, this, state = state_] {
      agents_.run_as(agent, [=, this] {
        if (client(agent).down != down) return;
        client(agent).state = state;
        agents_.tell(agent, StateCame{state});
      });
    });
  }

  /// Both ends give up a connection on which nothing comes.
  void watch_silence(int agent, std::uint64_t connection) {
    simulation_.after(1, [=, this] {
      Client& own = client(agent);
      if (own.connection != connection || !own.up) return;
      if (simulation_.now_s() < own.answered_s + 5) return watch_silence(agent, connection);
      disconnect(agent);
      again(agent, 0.1);
    });
  }

  void disconnect(int agent) {
    Client& own = client(agent);
    if (!own.up) return;
    own.up->close();
    own.down->close();
    own.up.reset();
    own.down.reset();
    peers_.erase(agent);
    const int server = own.server;
    simulation_.after(1, [=, this] {
      if (server < 0 || server_ != server || client(agent).up) return;
      agents_.run_as(server, [=, this] {
        if (client(agent).up) return;
        agents_.tell(server, AgentGone{agents_.id_of(agent), false});
      });
    });
  }

  /// \param is_told the other side gets the end of the connection.
  void break_connections(int agent, bool is_told) {
    if (agent != server_) {
      if (is_told && !network_.is_blocked(agents_.host_of(agent), 0)) disconnect(agent);
      return;
    }
    server_ = -1;
    ended_s_ = simulation_.now_s();
    has_mark_ = has_mark_ && agents_.is_host_up(0);  // a start of the machine empties its folder
    const std::vector<int> peers(peers_.begin(), peers_.end());
    for (const int peer : peers) {
      if (!is_told) continue;  // they hear nothing, and give up
      disconnect(peer);
      again(peer, simulation_.uniform(0.05, 0.3));
    }
    peers_.clear();
    for (std::size_t other = 0; other < clients_.size(); ++other) {
      if (agents_.host_of(static_cast<int>(other)) == 0) again(static_cast<int>(other), 0.05);
    }
  }

  Network& network_;
  Simulation& simulation_;
  Agents& agents_;
  bool keeps_marks_;
  std::vector<Client> clients_;
  std::set<int> peers_;  // connected
  StatePointer state_;
  int server_ = -1;
  int lineage_ = 0;
  int newest_lineage_ = 0;
  bool has_mark_ = false;  // of a leader whose job has not ended
  double ended_s_ = 0;     // of the process that led last
};

}  // namespace lockstep::rendezvous::testing
