// A job of several hosts in a simulation: agents, their ranks and what must hold at every moment.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/rendezvous/node.h"
#include "lockstep/rendezvous/simulated_board_testing.h"
#include "lockstep/rendezvous/simulated_network_testing.h"

namespace lockstep::rendezvous::testing {

struct SimulationOptions {
  int least_hosts = 3;
  int most_hosts = 7;
  NodeTimes times;
  bool checks_words = true;  // whether who is blamed is to blame
  bool keeps_marks = true;   // who takes over at the leader's host learns that there was another
  bool keeps_log = false;
};

struct SimulationResult {
  std::string violation;  // empty = everything held
  std::vector<std::string> log;
  bool has_succeeded = false;
  int rounds = 0;
  int restarts = 0;
  double seconds = 0;  // of virtual time
  std::uint64_t events = 0;
  std::map<std::string, int> faults;  // by kind
  std::map<std::string, int> seen;    // what happened, for the tests of the simulator itself
};

/// How a job is set up, drawn from the seed.
struct SimulatedSetup {
  bool is_etcd = false;
  int hosts = 3;                // that are there from the beginning
  int late_hosts = 0;           // that come later
  bool has_node_ranks = false;  // each host asks for its own
  bool has_twin = false;        // two agents share the first host
  NodeSettings settings;
  double work_s = 10;  // that all ranks must do together
};

class SimulatedJob final : public Agents {
 public:
  SimulatedJob(std::uint64_t seed, const SimulationOptions& options);
  ~SimulatedJob() override;

  [[nodiscard]] SimulationResult run();

  // Agents
  [[nodiscard]] int host_of(int agent) const override { return process(agent).host; }
  [[nodiscard]] bool is_alive(int agent) const override { return process(agent).is_alive; }
  [[nodiscard]] bool is_host_up(int host) const override { return hosts_[std::size_t(host)].is_up; }
  [[nodiscard]] const std::string& id_of(int agent) const override { return process(agent).id; }
  [[nodiscard]] double now_of(int agent) const override { return local_s(process(agent).host); }
  void run_as(int agent, std::function<void()> action) override;
  void tell(int agent, const NodeInput& input) override;
  void fail(int agent, const std::string& because) override;

 private:
  struct Host {
    bool is_up = true;
    bool is_frozen = false;
    double rate = 1;
    double offset_s = 0;
    double touched_s = -1e9;                      // when a fault on it ended
    std::deque<std::function<void()>> waiting{};  // while it is frozen
  };
  struct Ranks {
    bool are_live = false;
    int lineage = 0;
    int generation = 0;
    std::uint64_t token = 0;  // changes at every start and end
    bool are_told = false;    // to stop
  };
  struct Process {
    int host = 0;
    std::string id;
    std::unique_ptr<Node> node;
    bool is_alive = true;
    bool is_stopped = false;
    bool is_asked = false;     // to stop
    bool is_stranger = false;  // of another version
    std::optional<Finish> finish{};
    std::deque<std::function<void()>> inbox{};  // while it is stopped
    std::uint64_t wake_token = 0;
    double guarded_until_s = 0;  // by its clock: what the guardian was told last
    Ranks ranks{};
    int newest_generation = 0;
  };
  /// The ranks of one round.
  struct Group {
    std::string seats;
    std::size_t count = 0;
    std::size_t started = 0;
    std::size_t succeeded = 0;
    bool is_broken = false;
    std::optional<double> complete_s{};
    std::map<std::string, double> causes{};  // hosts whose rank failed first, and when
  };
  using GroupKey = std::pair<int, int>;  // lineage of the leader, generation

  // set-up
  void draw_setup(const SimulationOptions& options);
  void draw_faults();
  void draw_fault(double time_s);
  void start_agent(int index, const std::string& version = "1");

  [[nodiscard]] Process& process(int agent) { return *processes_[static_cast<std::size_t>(agent)]; }
  [[nodiscard]] const Process& process(int agent) const {
    return *processes_[static_cast<std::size_t>(agent)];
  }
  [[nodiscard]] Host& host(int index) { return hosts_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] double local_s(int host_index) const {
    const Host& one = hosts_[static_cast<std::size_t>(host_index)];
    return one.offset_s + one.rate * simulation_.now_s();
  }
  [[nodiscard]] double true_s(int host_index, double local) const {
    const Host& one = hosts_[static_cast<std::size_t>(host_index)];
    return (local - one.offset_s) / one.rate;
  }

  // what a node wants
  void act(int agent, const Publish& publish);
  void act(int agent, const Announce& announce);
  void act(int agent, const StartRanks& start);
  void act(int agent, const StopRanks& stop);
  void act(int agent, const Finish& finish);
  void act(int agent, const Note& note);
  void schedule_wake(int agent);

  // ranks
  void on_host(int index, double delay_s, std::function<void()> action);
  void guard(int agent, std::uint64_t token);
  void end_ranks(int agent, std::uint64_t token, const RoundEnd& end);
  void break_group(int agent);
  void complete(const GroupKey& key);
  void fail_ranks(int agent, bool is_consequence);
  [[nodiscard]] GroupKey key_of(int agent) const;
  [[nodiscard]] Failure failure_of(int agent, int signal, bool is_consequence);

  // faults
  void kill_agent(int agent);
  void kill_host(int index);
  void restart_host(int index, double delay_s);
  void stop_agent(int agent, double seconds);
  void freeze_host(int index, double seconds);
  void cut_off(int index, bool mute, bool deaf, double seconds);
  void split(double seconds);
  void ask_to_stop(int agent);
  void start_again();
  void forget();
  void flap(int index, int times);
  void touch(int index, double until_s);
  void resume(int agent);
  [[nodiscard]] int agent_of(int index) const;  // alive; -1 = none
  [[nodiscard]] int random_agent();

  // what must hold
  void check_start(int agent, const Round& round);
  void check_alone(int agent);
  void check_refusal(int agent, const Finish& finish);
  void check_announced(int agent, const JobState& state);
  void check_named(const JobState& state, const GroupKey& key);
  void check_bytes(const Record& record);
  void check_bytes(const JobState& state);
  void check_end();
  [[nodiscard]] bool is_over() const;
  void violate(const std::string& what);
  void log(const std::string& text);
  [[nodiscard]] std::string name(int agent) const;

  std::uint64_t seed_;
  Simulation simulation_;
  SimulatedSetup setup_;
  bool keeps_log_;
  bool checks_words_;
  bool checks_bytes_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<SimulatedBoard> board_;
  std::map<GroupKey, Group> groups_;
  std::set<GroupKey> accused_;  // rounds of which hosts were called lost
  double remaining_s_ = 0;      // of the work
  double service_touched_s_ = -1e9;
  double quiet_from_s_ = 0;  // no fault after
  SimulationResult result_;
};

/// Runs the seed; when something does not hold, again with a log.
[[nodiscard]] SimulationResult simulate(std::uint64_t seed, const SimulationOptions& options);

}  // namespace lockstep::rendezvous::testing
