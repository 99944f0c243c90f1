#include "lockstep/comm/world.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

std::unique_ptr<Group> join_world(const config::RankEnv& env,
                                  std::shared_ptr<FlightRecorder> flight) {
  GroupOptions options;
  options.rank = env.rank;
  options.size = env.world_size;
  options.store_host = env.store_host;
  options.store_port = env.store_port;
  options.host_store = !env.store_hosted && env.rank == 0;
  if (env.backend == "shm") options.backend = Backend::shm;
  if (env.backend == "gloo") options.backend = Backend::gloo;
  if (env.backend == "nccl") options.backend = Backend::nccl;
  options.host_id = env.host_id;
  options.address = env.address;
  options.flight = std::move(flight);
  return make_group(options);
}

std::unique_ptr<Group> join_world() {
  config::Starter starter = config::read_own_starter("rank");
  if (!starter.problems.empty()) throw UsageError(std::move(starter.problems));
  return join_world(starter.env);
}

}  // namespace lockstep::comm
