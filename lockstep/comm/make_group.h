// The backends a group can have, once its ranks have met.
#pragma once
#include <memory>
#include <vector>

#include "lockstep/comm/join.h"
#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {

/// Collective. \pre size > 1.
[[nodiscard]] std::unique_ptr<Group> make_gloo_group(const GroupOptions& options, Meeting meeting);
[[nodiscard]] std::unique_ptr<Group> make_shm_group(const GroupOptions& options, Meeting meeting);
/// One GPU a rank; size 1 goes over NCCL too. \throws EnvironmentFault (LS-4017) when there are not
/// enough GPUs, PeerLost (LS-4005) when a rank does not connect.
[[nodiscard]] std::unique_ptr<Group> make_nccl_group(const GroupOptions& options, Meeting meeting);
/// Before the ranks meet. \throws EnvironmentFault (LS-4016) when this build has no NCCL.
void require_nccl(const GroupOptions& options);
/// \pre several hosts, one of them with several ranks. \param places of all ranks.
[[nodiscard]] std::unique_ptr<Group> make_hierarchical_group(const GroupOptions& options,
                                                             Meeting meeting,
                                                             std::vector<RankPlace> places);

}  // namespace lockstep::comm
