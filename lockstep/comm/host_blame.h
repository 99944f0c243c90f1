// Why a group over several hosts is over, as the ranks of one of them tell it.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {

class HostBlame {
 public:
  /// \param layout as the rank sees it that tells. \param places of all ranks.
  HostBlame(HostLayout layout, std::vector<RankPlace> places)
      : layout_(std::move(layout)), places_(std::move(places)) {}

  /// "host A (ranks 0 and 1) has lost host B (ranks 2 and 3): <cause>" where the cause, which names
  /// ranks of the group, speaks of other hosts; "on host A: <cause>" where of this one only. Where
  /// it speaks of none, all others may be lost.
  [[nodiscard]] std::string text_of(const std::string& cause) const;

 private:
  [[nodiscard]] const RankPlace& place_of(int rank) const {
    return places_.at(static_cast<std::size_t>(rank));
  }
  [[nodiscard]] bool speaks_of(const std::string& cause, int host) const;
  [[nodiscard]] std::string name_of(int host) const;
  [[nodiscard]] std::string title_of(int host) const;

  const HostLayout layout_;
  const std::vector<RankPlace> places_;
};

}  // namespace lockstep::comm
