// What the agents of a job agree on before ranks start: who takes part, and where each one's ranks
// begin.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::rendezvous {

/// An agent as the others see it: the launcher of one host.
struct Agent {
  std::string id;       // random, new at every start of an agent
  std::string host;     // its name, for people
  std::string address;  // numeric: where ranks of other hosts reach this host
  int pid = 0;
  std::string machine;  // of equal values two agents share a host: boot and namespaces
  int node_rank = -1;   // asked for with --node-rank; -1 = any
  int ranks = 1;        // that it starts
  std::string role = "default";
  int store_port = 0;  // where it serves the ranks' store when it comes first
  std::map<std::string, std::string>
      equal;  // must be the same on all hosts: "version", "build", ...

  friend bool operator==(const Agent&, const Agent&) = default;
};

struct Seat {
  Agent agent;
  int base_rank = 0;       // the first of its ranks
  std::uint64_t beat = 0;  // of the agent's record that it was given for

  friend bool operator==(const Seat&, const Seat&) = default;
};

/// One start of the ranks on all hosts.
struct Round {
  std::string run_id;
  int generation = 0;     // of the membership; fences what an older one left
  int restart_count = 0;  // restarts used up
  int max_restarts = 0;
  std::vector<Seat> seats;  // by group rank
  std::size_t own_seat = 0;
  std::string master_addr;  // the store of this round
  int master_port = 0;

  [[nodiscard]] int world_size() const;
};

/// The first failure on a host, as its agent found it.
struct Failure {
  std::string host;
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  int exit_code = 0;
  int signal = 0;
  double seconds = 0;        // from the round's start to the end of the rank, monotonic
  bool consequence = false;  // the rank said that it lost a peer
  std::string because;       // "killed by SIGKILL: ...", one line
  std::string text;          // its last lines or traceback

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// How a job ended.
struct Verdict {
  Exit exit = Exit::ok;
  std::optional<Failure> first;  // by time, consequences last
  std::vector<Failure> consequences;
  std::string because;  // what stopped the job where no rank did

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace lockstep::rendezvous
