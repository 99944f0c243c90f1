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
#include "lockstep/parallel/cost/loading_time.h"
#include "lockstep/parallel/cost/memory.h"
#include "lockstep/parallel/cost/step_time.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/planner/deepspeed_file.h"
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
  std::optional<Machine> machine{};       // unset: nobody said which device
  bool network_named = false;             // the link between its hosts, the usual one too
  std::string_view memory_software = "";  // row of memory_stacks(); empty = as the layout needs
  std::optional<DeepSpeedChoice> deepspeed{};  // a ds_config.json that is gone by
  bool states_only = false;                    // parameters, gradients and optimizer alone
  double largest_layer = 0;                    // parameters; of DeepSpeed's rule
  bool deepspeed_rule = false;                 // states as its own estimators count them
  parallel::DataSource source{};  // sample_bytes 0 = as the model's samples are usually stored
  /// Of the whole training; samples where they have no tokens. 0 = not said.
  double tokens = 0;
  std::vector<std::string> assumptions{};  // that were made on the way here
};

struct ClusterPlan {
  double parameters = 0;
  parallel::MemoryPrediction memory;     // categories that were not asked for are 0
  std::int64_t device_memory_bytes = 0;  // 0 = unknown
  std::optional<parallel::TimePrediction> time{};
  double loading_s = 0;      // that a step's data take to be read, beside it; 0 = not known
  double tokens_per_s = 0;   // of all devices; of a model without tokens 0
  double samples_per_s = 0;  // 0 = not predicted
  std::vector<std::string> assumptions{};
  /// Nothing where the device is not known.
  [[nodiscard]] std::optional<bool> fits() const;
};

/// Of the whole training; 0 = not said.
[[nodiscard]] double samples_of_training(const ClusterJob& job);
/// "300G tokens", "115M samples".
[[nodiscard]] std::string trained_text(const ClusterJob& job);

/// \pre check_layout finds nothing.
[[nodiscard]] ClusterPlan plan_cluster(const ClusterJob& job);

/// On one device, with the same micro-batch and what saves memory there.
[[nodiscard]] ClusterPlan plan_alone(const ClusterJob& job);

/// With the bytes of a sample.
[[nodiscard]] parallel::DataSource source_of(const ClusterJob& job);

/// Reading samples goes on beside a step; what of it a step waits for is added to it.
/// \returns what reading takes; 0 where no rate is known. \pre job.machine of this layout.
double add_loading(const ClusterJob& job, const parallel::Layout& layout, const Machine& machine,
                   parallel::TimePrediction& time);

/// The software whose habits the time of the job goes by, in its own layout or in another.
[[nodiscard]] const parallel::SoftwareStack& time_stack_of(const ClusterJob& job);
[[nodiscard]] const parallel::SoftwareStack& time_stack_of(const ClusterJob& job,
                                                           const parallel::Layout& layout);

/// What a device holds of states, exactly by the parameters as given, of the fullest stage.
[[nodiscard]] parallel::StateBytes fullest_states(const ClusterJob& job);

}  // namespace lockstep::planner
