#include "lockstep/comm/make_group.h"

#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/connection_watch.h"
#include "lockstep/comm/instant_group.h"

namespace lockstep::comm {
namespace {

std::string_view name(Backend backend) { return backend == Backend::shm ? "shm" : "gloo"; }

}  // namespace

std::unique_ptr<Group> make_group(const GroupOptions& options) {
  LOCKSTEP_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size,
                 "a group needs 0 <= rank < size");
  if (options.backend == Backend::nccl) {
    require_nccl(options);
    const bool alone = options.size == 1;
    return make_nccl_group(
        options, alone ? Meeting{nullptr, c10::make_intrusive<c10d::HashStore>()} : meet(options));
  }
  if (options.size == 1) {
    return std::make_unique<InstantGroup>(0, 1, std::string(name(options.backend)));
  }
  Meeting meeting = meet(options);
  if (options.backend == Backend::shm) return make_shm_group(options, std::move(meeting));
  std::vector<RankPlace> places = exchange_places(*meeting.store, options);
  const HostLayout layout = layout_of(places, options.rank);
  const bool may_share = options.backend == Backend::automatic;
  if (may_share && layout.hosts() == 1) return make_shm_group(options, std::move(meeting));
  check_addresses(places);
  GroupOptions reachable = options;
  reachable.address = places.at(static_cast<std::size_t>(options.rank)).address;
  if (may_share && layout.is_shared()) {
    return make_hierarchical_group(reachable, std::move(meeting), std::move(places));
  }
  auto group = make_gloo_group(reachable, std::move(meeting));
  watch_connections(places);
  return group;
}

std::unique_ptr<Group> make_gloo_group(GroupOptions options) {
  options.backend = Backend::gloo;
  return make_group(options);
}

std::unique_ptr<Group> make_shm_group(GroupOptions options) {
  options.backend = Backend::shm;
  return make_group(options);
}

}  // namespace lockstep::comm
