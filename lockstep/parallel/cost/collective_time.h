// Seconds of a collective over ranks that lie in hosts: latency of its steps, and its bytes over
// the slowest link that they cross.
#pragma once
#include <cstdint>

#include "lockstep/topology/machine.h"

namespace lockstep::parallel {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
};

enum class Algorithm : std::uint8_t {
  best,          // the quickest of the next three
  ring,          // each rank sends to the next: n - 1 steps, twice that for all_reduce
  tree,          // two trees, down and up (Sanders et al. 2009): log2 n steps
  hierarchical,  // each host's ranks first, then across hosts, all network cards at once
  linear,        // one rank gets what all others have, one after the other, and answers all
};

/// Who takes part: `ranks` of them, `per_host` in each host.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t per_host = 1;
  [[nodiscard]] std::int64_t hosts() const { return (ranks + per_host - 1) / per_host; }
};

/// A group of `ranks`, of which neighbours lie `stride` devices apart.
[[nodiscard]] Group group_of(std::int64_t ranks, std::int64_t stride, const Machine& machine);

/// \param bytes of the whole result (all_reduce, broadcast, all_gather) or input (reduce_scatter,
/// all_to_all) of a rank.
[[nodiscard]] double collective_time(Collective collective, double bytes, const Group& group,
                                     const Machine& machine, Algorithm algorithm = Algorithm::best);

/// Bytes that a rank sends: what a ring does, (n - 1) / n of them, twice that for all_reduce.
[[nodiscard]] double sent_bytes(Collective collective, double bytes, std::int64_t ranks);

}  // namespace lockstep::parallel
