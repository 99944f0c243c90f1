// The LibTorch half of a strategy: what it does to a session under construction. Its torch-free
// half (can it run, what would it cost) is a row of parallel/cost.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/block_runner.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::comm {
class FlightRecorder;
}  // namespace lockstep::comm

namespace lockstep::parallel {

/// The groups of this rank, one per axis of the mesh in use; `data` reduces gradients.
struct Groups {
  comm::Group& world;
  comm::Group& data;
  comm::Group* statistics = nullptr;  // of batch normalisation over ranks; null where there is none
};

/// All a strategy may look at.
struct BuildSetting {
  const config::RunConfig& config;
  const ParallelPlan& plan;
  const Mesh& mesh;
  Groups groups;
  comm::FlightRecorder* flight = nullptr;  // is told the phases of a step; outlives the session
};

/// A session under construction. Strategies fill or replace parts in the plan's order.
struct SessionParts {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BlockRunner> runner;    // how blocks are run
  std::unique_ptr<DataParallel> replica;  // how gradients are summed and parameters updated
  /// Set where blocks have collectives: then ranks without samples run them with no rows, so that
  /// none is missing. The seconds that they kept this rank waiting, since somebody took them.
  std::shared_ptr<double> blocks_waited_s;
};

struct Strategy {
  std::string_view name;  // a row of strategy_costs() has the same
  /// Collective over setting.groups.world.
  void (*apply)(const BuildSetting& setting, SessionParts& parts);
};

}  // namespace lockstep::parallel
