// One agent's part in the keys of a job in etcd: what it writes, and what it learns from them.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rendezvous/board.h"
#include "lockstep/rendezvous/etcd_client.h"

namespace lockstep::rendezvous {

/// What is to be written in a turn.
struct EtcdWrites {
  std::optional<std::string> record;
  Deadline published{};  // the record
  std::optional<std::string> state;
  int term = 0;  // in which the state was announced: how often this agent had begun to lead
};

/// Longer than agents go on without an answer of etcd (EtcdBoardTimes::lost), so that no job loses
/// its state; short enough that one which has ended leaves nothing behind.
inline constexpr std::chrono::seconds kStateLife{120};

class EtcdMembership {
 public:
  /// \param state_life of the state once no leader keeps it any more.
  EtcdMembership(std::vector<Endpoint> endpoints, const std::string& prefix, std::string agent,
                 std::chrono::seconds state_life = kStateLife);

  /// A few requests; adds what is to be told. \throws EtcdTrouble: nothing is lost, the turn can be
  /// taken again with the same.
  void take_turn(const EtcdWrites& writes, std::vector<BoardEvent>& events);
  /// After a while without an answer somebody else may lead.
  void judge_silence(std::vector<BoardEvent>& events);
  void leave();
  [[nodiscard]] bool leads() const { return leading_since_ != 0; }
  /// Bytes come when the leader or the state is written; what then stands there a turn tells.
  /// \throws EtcdTrouble
  [[nodiscard]] Fd watch() { return client_.watch(leader_key_, state_key_ + '\0'); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::int64_t revision = 0;
    bool has_left = false;
  };

  void keep_lease(const EtcdWrites& writes, std::vector<BoardEvent>& events);
  void follow(const EtcdWrites& writes, std::vector<BoardEvent>& events);
  void run_for_leader(std::vector<BoardEvent>& events);
  void begin_leading(std::int64_t since, const std::vector<EtcdKey>& state,
                     std::vector<BoardEvent>& events);
  void lead(const EtcdWrites& writes, std::vector<BoardEvent>& events);
  void keep_state_lease();
  void stop_leading(std::vector<BoardEvent>& events);
  void see_leader(const std::vector<EtcdKey>& keys, std::vector<BoardEvent>& events);
  void see_state(const std::vector<EtcdKey>& keys, std::vector<BoardEvent>& events);
  void see_records(const std::vector<EtcdKey>& changed, const std::vector<EtcdKey>& all,
                   std::vector<BoardEvent>& events);
  [[nodiscard]] EtcdOperation put_record(const std::string& record) const;
  [[nodiscard]] EtcdOperation range_of(const std::string& key) const;

  EtcdClient client_;
  std::string agents_key_;
  std::string leader_key_;
  std::string state_key_;
  std::string agent_;
  std::chrono::seconds state_life_;

  std::int64_t lease_ = 0;
  Clock::time_point kept_{};        // when the request was made that kept the lease last
  bool has_record_ = false;         // under this lease
  std::string record_;              // the newest that was written
  int terms_ = 0;                   // how often it has begun to lead
  std::int64_t leading_since_ = 0;  // revision at which this agent made "leader"; 0 = it did not
  std::string leader_;              // who leads, as far as is known
  bool leader_told_ = false;
  std::string state_;             // of a leader: what it announced last in this term
  bool state_waits_ = false;      // to be written
  std::int64_t state_lease_ = 0;  // of a leader
  Clock::time_point state_kept_{};
  std::int64_t state_revision_ = 0;     // seen
  std::int64_t records_revision_ = 0;   // seen, of a leader
  std::map<std::string, Seen> agents_;  // of a leader
};

}  // namespace lockstep::rendezvous
