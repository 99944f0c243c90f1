// Seconds of one training step of any model, on any machine, spread in any way: the time model that
// docs/planning.md describes and docs/validation.md holds against published runs.
#pragma once
#include <string>
#include <vector>

#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/cost/block_runs.h"
#include "lockstep/parallel/cost/software_stack.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/topology/machine.h"

namespace lockstep::parallel {

/// What is neither of a device nor of a link nor of a stack.
struct TimeConstants {
  /// Gathering parameters beside computing slows the computing by this share of the gathering (its
  /// kernels take processors and memory); fitted.
  double gather_cost = 0.4;
};

/// Of one step, on the rank that takes longest. step_s is the sum of the parts below it.
struct TimePrediction {
  double step_s = 0;
  double forward_s = 0;  // operators alone
  double backward_s = 0;
  double recompute_s = 0;
  double tensor_comm_s = 0;        // exposed; context and expert ranks too
  double pipeline_comm_s = 0;      // activations and their gradients to the next stage
  double exposed_data_comm_s = 0;  // gradients, and parameters where they are shared out
  double bubble_s = 0;             // waiting for other stages
  double optimizer_s = 0;
  double tflops_per_device = 0;  // of the model's own FLOPs, nothing computed twice
  double mfu = 0;                // of the peak for the compute type
  double hfu = 0;                // counting what is computed twice
  // Bytes that a rank sends.
  double tensor_bytes = 0;
  double pipeline_bytes = 0;
  double data_bytes = 0;
  std::vector<std::string> assumptions{};
  [[nodiscard]] double wire_bytes() const { return tensor_bytes + pipeline_bytes + data_bytes; }
};

/// \pre layout fits machine and model.
[[nodiscard]] TimePrediction predict_time(const model::ModelStats& model, const Layout& layout,
                                          const PrecisionRecipe& recipe, const Machine& machine,
                                          const SoftwareStack& stack,
                                          const TimeConstants& constants = {});

/// The same for a model already cut into runs, without assumptions and FLOPs: what a search or a
/// calibration asks ten thousand times.
[[nodiscard]] TimePrediction time_parts(const std::vector<BlockRun>& runs, const Layout& layout,
                                        const PrecisionRecipe& recipe, const Machine& machine,
                                        const SoftwareStack& stack, const TimeConstants& constants);

/// Of one pipeline stage and one micro-batch, all its chunks together, exposed exchange included.
struct StageTime {
  double forward_s = 0;
  double backward_s = 0;
  double hand_over_s = 0;  // to the next stage, and of gradients to the one before
};

/// What planner/step_events puts into the order of a schedule.
[[nodiscard]] std::vector<StageTime> stage_times(const std::vector<BlockRun>& runs,
                                                 const Layout& layout,
                                                 const PrecisionRecipe& recipe,
                                                 const Machine& machine, const SoftwareStack& stack,
                                                 const TimeConstants& constants = {});

}  // namespace lockstep::parallel
