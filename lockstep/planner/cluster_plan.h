// A training of any model on any cluster, priced: what `lockstep plan --model NAME --gpus N` says.
// Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/model/stats/architecture.h"
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/cost/deepspeed_states.h"
#include "lockstep/parallel/cost/memory.h"
#include "lockstep/parallel/cost/step_time.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/topology/machine.h"

namespace lockstep::planner {

struct ClusterJob {
  model::Architecture architecture;
  model::ModelStats model;  // of the architecture
  /// As the user gave it, for the states: the model then is a GPT of about so many. 0 = the
  /// model's.
  double given_parameters = 0;
  parallel::Layout layout;
  const parallel::PrecisionRecipe* recipe = nullptr;
  std::optional<Machine> machine{};        // unset: nobody said which device
  std::string_view memory_software = "";   // row of memory_stacks(); empty = as the layout needs
  bool states_only = false;                // parameters, gradients and optimizer alone
  double largest_layer = 0;                // parameters; of DeepSpeed's rule
  bool deepspeed_rule = false;             // states as its own estimators count them
  double tokens = 0;                       // of the whole training; 0 = not said
  std::vector<std::string> assumptions{};  // that were made on the way here
};

struct ClusterPlan {
  double parameters = 0;
  parallel::MemoryPrediction memory;     // categories that were not asked for are 0
  std::int64_t device_memory_bytes = 0;  // 0 = unknown
  std::optional<parallel::TimePrediction> time{};
  double tokens_per_s = 0;   // of all devices; of a model without tokens 0
  double samples_per_s = 0;  // 0 = not predicted
  std::vector<std::string> assumptions{};
  /// Nothing where the device is not known.
  [[nodiscard]] std::optional<bool> fits() const;
};

/// \pre check_layout finds nothing.
[[nodiscard]] ClusterPlan plan_cluster(const ClusterJob& job);

/// On one device, with the same micro-batch and what saves memory there.
[[nodiscard]] ClusterPlan plan_alone(const ClusterJob& job);

/// What a device holds of states, exactly by the parameters as given, of the fullest stage.
[[nodiscard]] parallel::StateBytes fullest_states(const ClusterJob& job);

}  // namespace lockstep::planner
