#include "lockstep/comm/make_group.h"

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/instant_group.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {
namespace {

std::string_view name(Backend backend) { return backend == Backend::shm ? "shm" : "gloo"; }

/// Every rank tells where it runs; all come to the same answer. Collective.
bool all_on_one_host(c10d::Store& store, const GroupOptions& options) {
  const auto key = [&](int rank) { return options.name + "/host" + std::to_string(rank); };
  const std::string own = host_identity();
  store.set(key(options.rank), std::vector<std::uint8_t>(own.begin(), own.end()));
  std::vector<std::string> keys;
  for (int r = 0; r < options.size; ++r) keys.push_back(key(r));
  try {
    store.wait(keys, options.join_deadline);
  } catch (const std::exception&) {
    throw PeerLost({"LS-4005", where_of(options),
                    "a rank joined, but never said on which host it is",
                    "see whether it ended meanwhile: its own log says why"});
  }
  for (const std::string& other : keys) {
    const auto host = store.get(other);
    if (std::string(host.begin(), host.end()) != own) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Group> make_group(const GroupOptions& options) {
  LOCKSTEP_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size,
                 "a group needs 0 <= rank < size");
  if (options.size == 1) {
    return std::make_unique<InstantGroup>(0, 1, std::string(name(options.backend)));
  }
  Meeting meeting = meet(options);
  const bool shm = options.backend == Backend::shm || (options.backend == Backend::automatic &&
                                                       all_on_one_host(*meeting.store, options));
  return shm ? make_shm_group(options, std::move(meeting))
             : make_gloo_group(options, std::move(meeting));
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
