// The membership of torchrun's static rendezvous: fixed hosts with given numbers that meet in the
// store of node 0. Agents of torchrun 2.11 may be among them.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/node_values.h"
#include "lockstep/rendezvous/reach.h"
#include "lockstep/rendezvous/session.h"
#include "lockstep/rendezvous/static_store.h"
#include "lockstep/rendezvous/static_watch.h"
#include "lockstep/store/server.h"

namespace lockstep::rendezvous {

struct StaticSettings {
  Agent agent;        // with its id and node rank
  NodeSettings job;   // run id, max_nodes, restarts, join timeout, may_differ, ours, times
  Endpoint endpoint;  // master address and port; node 0 serves the store there
  /// Hosts that have ended wait for the others; torchrun's are 300 s.
  std::chrono::milliseconds exit_barrier{300'000};
  bool workers_identical = false;  // TORCH_ELASTIC_WORKER_IDENTICAL: torchrun writes no roles
  ReachTimes reach{};
  OnWaiting on_waiting;                                  // who is missing, every five seconds
  std::function<void(const std::string& text)> on_note;  // for people
};

/// As with torchrun's agents each host counts its restarts. Hosts with an agent of ours also tell
/// each other what failed, that they live and that they were asked to stop, so that all restart or
/// end together and for one cause; among torchrun's, ranks that lose a peer have to fail for that.
/// Serves the ranks' store itself.
class StaticSession final : public Session {
 public:
  explicit StaticSession(StaticSettings settings);
  ~StaticSession() override;

  [[nodiscard]] std::variant<Round, Verdict> next(int stop_fd) override;
  [[nodiscard]] int interrupt_fd() const override;
  [[nodiscard]] std::string interrupt_reason() const override;
  [[nodiscard]] bool is_fenced() const override;
  void leaving() override;
  void failing(const Failure& failure) override;
  void report(const RoundEnd& end) override;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool open(int stop_fd);
  void serve();
  void claim_node();
  [[nodiscard]] std::optional<StaticStore::Members> gather(int stop_fd);
  [[nodiscard]] bool has_all(const StaticStore::Members& members) const;
  void check_others(const StaticStore::Members& members) const;
  [[nodiscard]] std::string missing_text(const StaticStore::Members& members) const;
  [[nodiscard]] std::variant<Round, Verdict> start_round(int stop_fd);
  [[nodiscard]] Round round_of(const StaticStore::Members& members) const;
  void watch_others(const StaticStore::Members& members);
  [[nodiscard]] Record own_record() const;
  [[nodiscard]] StaticWatch::Cause cause_of(const RoundEnd& end);
  [[nodiscard]] StaticWatch::Cause first_failure(const RoundEnd& end);
  void settle(const RoundEnd& end, const StaticWatch::Cause& cause);
  void wait_for_all(int stop_fd);
  void lost_while_waiting(const std::string& why);
  [[nodiscard]] bool all_have_ended();
  void let_others_know();
  void note(const std::string& text) const;

  StaticSettings settings_;
  int node_;
  std::unique_ptr<store::Server> server_;  // of node 0
  std::unique_ptr<StaticStore> store_;
  std::unique_ptr<StaticWatch> watch_;
  int our_agents_ = 0;
  int restarts_ = 0;
  bool has_succeeded_ = false;  // this host, in this round
  std::optional<Verdict> verdict_;
};

}  // namespace lockstep::rendezvous
