// What stands on the board: each agent's record and the state of the job, as values and as bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/rendezvous/round.h"

namespace lockstep::rendezvous {

inline constexpr std::size_t kMostRecordBytes = std::size_t{256} << 10;
inline constexpr std::size_t kMostStateBytes = std::size_t{1} << 20;  // etcd takes 1.5 MiB
inline constexpr std::size_t kMostSeats = 4096;
inline constexpr std::size_t kMostListed = 64;    // refusals, strikes and hosts that have gone
inline constexpr std::size_t kMostFailures = 32;  // told of a round; later ones are left out

/// How the ranks of one host fare in one round.
struct RanksReport {
  enum class Kind : std::uint8_t {
    none,  // not started
    running,
    failing,  // one has failed, others are being stopped
    failed,
    succeeded,  // all
    stopped,    // because the leader said so, or this agent was asked to stop
    fenced,     // killed: the leader was not heard for too long
  };
  int generation = 0;
  Kind kind = Kind::none;
  std::vector<Failure> failures;  // of failing and failed; the first comes first
  bool saved = false;             // left with exit 75
  std::int64_t step = -1;         // the last that was reported; -1 = none is

  friend bool operator==(const RanksReport&, const RanksReport&) = default;
};

/// What an agent writes.
struct Record {
  Agent agent;
  std::uint64_t beat = 0;     // grows with each record: the sign of life
  std::uint64_t version = 0;  // of the newest state it has seen
  int generation = 0;         // the newest it has seen
  int cleared = 0;  // no rank of this or an older generation runs on its host, or will ever
  RanksReport ranks;
  bool leaving = false;   // it was asked to stop
  bool finished = false;  // it knows how the job ended, and goes

  friend bool operator==(const Record&, const Record&) = default;
};

/// An agent that may not take part, and why.
struct Refusal {
  std::string id;
  Exit exit = Exit::usage;
  Problem problem;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// How often a host has gone, and how long it is held off.
struct Strikes {
  std::string machine;
  int count = 0;
  double held_s = 0;  // from when the state was announced

  friend bool operator==(const Strikes&, const Strikes&) = default;
};

/// Why a round is being ended.
enum class StopCause : std::uint8_t { none, failure, lost, left, joined, asked };

/// What the leader announces.
struct JobState {
  enum class Phase : std::uint8_t { gathering, running, stopping, ended };

  std::string run_id;
  std::string leader;         // id
  std::string leader_name;    // for people
  std::uint64_t version = 0;  // grows with each announcement, over all leaders
  Phase phase = Phase::gathering;
  int generation = 0;        // of the newest round
  int first_generation = 1;  // of this job: what came before was another one
  int restart_count = 0;
  int max_restarts = 0;
  std::vector<Seat> seats;  // of running and stopping; agents without `machine` and `equal`
  StopCause cause = StopCause::none;
  std::string because;                       // of stopping: why
  std::string waiting_for;                   // of gathering: who is there, who is missing
  std::string last_end;                      // how the round before ended
  std::map<std::string, std::string> equal;  // on all hosts: Agent::equal
  std::vector<std::string> lost;             // hosts that have gone and are missing
  std::vector<Refusal> refused;
  std::vector<Strikes> strikes;
  std::int64_t best_step = -1;  // that any round has reached
  int rounds_at_best = 0;       // failed in a row without getting beyond it
  std::optional<Verdict> verdict;

  [[nodiscard]] const Seat* seat_of(const std::string& agent_id) const;
  [[nodiscard]] const Refusal* refusal_of(const std::string& agent_id) const;

  friend bool operator==(const JobState&, const JobState&) = default;
};

/// "node7 (pid 4711)"
[[nodiscard]] std::string name_of(const Agent& agent);

/// JSON. Long texts are cut, so that the limits hold.
[[nodiscard]] std::string to_bytes(const Record& record);
[[nodiscard]] std::string to_bytes(const JobState& state);
/// \throws BadData (LS-3021) for what is no record: wrong type, out of range, too long.
[[nodiscard]] Record record_from(std::string_view bytes);
/// \throws BadData (LS-3021)
[[nodiscard]] JobState state_from(std::string_view bytes);

}  // namespace lockstep::rendezvous
