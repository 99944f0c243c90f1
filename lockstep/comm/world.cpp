#include "lockstep/comm/world.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// Of a group of all ranks that finds its store served.
GroupOptions options_of(const config::RankEnv& env, std::shared_ptr<FlightRecorder> flight) {
  GroupOptions options;
  options.rank = env.rank;
  options.size = env.world_size;
  options.store_host = env.store_host;
  options.store_port = env.store_port;
  if (env.backend == "shm") options.backend = Backend::shm;
  if (env.backend == "gloo") options.backend = Backend::gloo;
  if (env.backend == "nccl") options.backend = Backend::nccl;
  options.host_id = env.host_id;
  options.address = env.address;
  options.flight = std::move(flight);
  return options;
}

config::RankEnv own_env() {
  config::Starter starter = config::read_own_starter("rank");
  if (!starter.problems.empty()) throw UsageError(std::move(starter.problems));
  return starter.env;
}

}  // namespace

std::unique_ptr<Group> join_world(const config::RankEnv& env,
                                  std::shared_ptr<FlightRecorder> flight) {
  if (env.backend == "fake") return make_fake_group(env.rank, env.world_size);
  GroupOptions options = options_of(env, std::move(flight));
  options.host_store = !env.store_hosted && env.rank == 0;
  return make_group(options);
}

std::unique_ptr<Group> join_world() { return join_world(own_env()); }

std::unique_ptr<Group> join_beside_world(const config::RankEnv& env, const std::string& name,
                                         std::shared_ptr<FlightRecorder> flight) {
  if (env.backend == "fake") return make_fake_group(env.rank, env.world_size);
  GroupOptions options = options_of(env, std::move(flight));
  options.name = name;
  return make_group(options);
}

std::unique_ptr<Group> join_beside_world(const std::string& name) {
  return join_beside_world(own_env(), name);
}

}  // namespace lockstep::comm
