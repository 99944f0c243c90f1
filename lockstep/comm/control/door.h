// How the ranks of a group come by a control connection to each other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/base/socket.h"
#include "lockstep/comm/records/flight_values.h"

namespace lockstep::comm::control {

/// What a rank tells the others before they connect, through the store.
struct Card {
  std::string host;  // numeric address that the others can reach
  int port = 0;
  std::uint64_t token = 0;  // who connects must know it: a stranger does not
  ProcessIdentity process{};
};

[[nodiscard]] std::string to_text(const Card& card);
/// \throws BadData (LS-4030) for what is no card.
[[nodiscard]] Card card_from_text(const std::string& text);

/// "rank 3 (process 4711 on node7)"
[[nodiscard]] std::string name_of(int rank, const Card& card);

/// Where the ranks above this one connect to.
class Door {
 public:
  /// \throws EnvironmentFault when nothing can listen at the address.
  explicit Door(const std::string& host);
  [[nodiscard]] const Card& card() const { return card_; }

  /// Collective. Connects to the ranks below and lets those above in; one socket for each rank,
  /// none for the own. \param cards of all ranks, in order. \throws PeerLost (LS-4005) naming the
  /// ranks that did not come, EnvironmentFault when descriptors run out.
  [[nodiscard]] std::vector<Fd> meet(int rank, const std::vector<Card>& cards,
                                     const std::string& where, Deadline deadline);

 private:
  void let_in(int rank, std::vector<Fd>& peers, Deadline deadline);

  Listener listener_;
  Card card_;
};

}  // namespace lockstep::comm::control
