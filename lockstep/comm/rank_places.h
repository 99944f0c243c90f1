// Where the ranks of a group run and how those of other hosts reach them: told through the store.
#pragma once
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/comm/host_layout.h"

namespace lockstep::comm {

/// What one rank says of the machine it runs on.
struct RankPlace {
  std::string host_id;            // equal on ranks that share memory
  std::string host_name;          // for people
  std::string network;            // equal where a loopback address reaches
  std::string address;            // numeric, of this machine
  bool is_address_given = false;  // by a person: not doubted
};

[[nodiscard]] std::string to_text(const RankPlace& place);
/// Missing parts stay empty: the text comes from another process.
[[nodiscard]] RankPlace read_place(const std::string& text);

/// Every rank tells where it runs; all get the same answer, one place per rank. Collective.
/// \throws PeerLost (LS-4005) when a rank does not say it in time.
[[nodiscard]] std::vector<RankPlace> exchange_places(c10d::Store& store,
                                                     const GroupOptions& options);

/// For one rank, when all know.
void forget_places(c10d::Store& store, const GroupOptions& options);

/// \param rank whose view.
[[nodiscard]] HostLayout layout_of(const std::vector<RankPlace>& places, int rank);

/// \throws EnvironmentFault (LS-4006) naming both hosts when a rank announced an address that the
/// ranks of another machine cannot reach: loopback or link-local, and nobody insisted on it.
void check_addresses(const std::vector<RankPlace>& places);

}  // namespace lockstep::comm
