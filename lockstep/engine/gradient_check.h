// The gradients that the ranks summed in a step, against those of one rank that runs the global
// batch alone.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/engine/values/step_report.h"
#include "lockstep/parallel/session.h"

namespace lockstep::engine {

struct GradientCheckSetting {
  const config::RunConfig& config;
  parallel::Session& session;
  comm::Group& group;
  const data::Dataset& data;
  const data::Sampler& sampler;
};

/// Which step is checked.
struct CheckedStep {
  data::Position position;  // of its data
  data::LeafRange leaves;   // of this rank
  double leaf_s = 0;        // that a micro-batch took
};

/// Collective, between Session::reduce() and the update: rank 0 computes, the others wait, and hear
/// from it after each part, so that no wait comes near the deadline of a collective.
/// \param stops_now asked on rank 0 after each part; yes gives the check up.
/// \returns on rank 0 what came out of it, elsewhere nothing.
[[nodiscard]] std::optional<GradientCheckReport> check_gradients(
    const GradientCheckSetting& setting, const CheckedStep& step,
    const std::function<bool()>& stops_now);

/// What explains relative differences.
struct CheckTolerance {
  /// Gradients that are summed in another order, and travel rounded; 0 = they are compressed.
  double sums = 0;
  /// Activations that are rounded in another way, because other samples are computed beside them:
  /// more where large terms cancel (biases of normalisation layers), and at the kink of a ReLU.
  double activations = 0;
};
[[nodiscard]] CheckTolerance check_tolerance(const config::RunConfig& config);

}  // namespace lockstep::engine
