// The ranks of a group find each other in the store before they connect.
#pragma once
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {

/// The store of a group, and its server where this rank is to host it.
struct Meeting {
  std::unique_ptr<store::Server> server;
  c10::intrusive_ptr<c10d::Store> store;
};

/// Opens (and hosts) the store of `options` and joins. Collective. \throws as join().
[[nodiscard]] Meeting meet(const GroupOptions& options);

/// Registers this rank under "<name>/rank<r>" and waits until all ranks have.
/// Collective. \throws PeerLost naming the ranks that never came, EnvironmentFault when another
/// process has this rank already.
void join(c10d::Store& store, const GroupOptions& options);

/// Every rank gives a text; all get those of all ranks, by rank. Collective.
/// \param key one per exchange. \param what the text tells, for the error: "on which host it is".
/// \throws PeerLost (LS-4005) when a rank does not give its own in time.
[[nodiscard]] std::vector<std::string> exchange_texts(c10d::Store& store,
                                                      const GroupOptions& options,
                                                      const std::string& key,
                                                      const std::string& own,
                                                      const std::string& what);

/// Removes what lies in the store from such an exchange: a later one of the same name must not find
/// it. For one rank, when all have it.
void forget_texts(c10d::Store& store, const GroupOptions& options, const std::string& key);

/// "rank 1 of 4, group world": the `where` of every problem of a group.
[[nodiscard]] std::string where_of(const GroupOptions& options);

/// "120 s" or "250 ms".
[[nodiscard]] std::string to_text(std::chrono::milliseconds deadline);

}  // namespace lockstep::comm
