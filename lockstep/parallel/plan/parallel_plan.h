// How one run is spread over the ranks: the value that the planner makes and a Session is built
// from.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config/batch_shape.h"
#include "lockstep/parallel/plan/parameter_group.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::parallel {

/// Predicted bytes per device, by the categories of docs/cli.md.
struct MemoryPlan {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;
  std::int64_t buffers = 0;
  std::int64_t communication = 0;
  std::int64_t runtime = 0;
  /// At most the largest number: parts of an absurd plan do not overflow.
  [[nodiscard]] std::int64_t total() const;
};

struct ParallelPlan {
  std::vector<std::string> strategies;  // rows of the strategy registry, outermost first
  Coord degree{1, 1, 1};                // pp, dp, tp
  config::BatchShape batch;
  std::int64_t first_bucket_bytes = 1 << 20;
  std::int64_t bucket_bytes = 25 << 20;
  std::int64_t last_bucket_bytes = 2 << 20;
  MemoryPlan memory;                     // of the fullest rank
  std::int64_t comm_bytes_per_step = 0;  // payload of one rank
  double step_s = 0;                     // 0 = not predicted
  double exposed_comm_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;
  std::string exchange = "fp32";       // how gradients travel: as exchange_cost() knows it
  std::string compute;                 // "fp16 beside fp32 masters, ..."; empty = nothing to tell
  std::vector<ParameterGroup> groups;  // that are updated differently; empty = all are alike
};

[[nodiscard]] std::string to_json_text(const ParallelPlan& plan);
/// \throws BadData when the text is not a plan.
[[nodiscard]] ParallelPlan plan_from_json_text(const std::string& json);

}  // namespace lockstep::parallel
