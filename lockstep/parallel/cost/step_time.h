// Seconds of one training step of any model, on any machine, spread in any way: the time model that
// docs/planning.md describes and docs/validation.md holds against published runs.
#pragma once
#include <string>
#include <vector>

#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/cost/block_runs.h"
#include "lockstep/parallel/cost/gradient_overlap.h"
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
  double data_wait_s = 0;        // for samples; planner/cluster_plan adds it
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
  // Exposed exchange with tensor, context and expert ranks, within forward_s and backward_s.
  double forward_tensor_s = 0;
  double backward_tensor_s = 0;
  // ZeRO-3: gathering and reducing beside them, hidden or not.
  double forward_gather_s = 0;
  double backward_gather_s = 0;
  double optimizer_s = 0;
  std::vector<GradientPart> gradients{};  // in backward's order
  std::vector<GradientPart> weights{};    // against forward's order, seconds of forward
};

/// How data ranks exchange gradients and, with ZeRO 1 and 2, updated weights: the same for each
/// stage.
struct DataExchange {
  ExchangePrice reduce{};  // no machine: there is nothing to exchange
  ExchangePrice gather{};
  double bucket_bytes = 0;  // 0 = a layer each
  double weight_bucket_bytes = 0;
  bool beside_backward = false;  // else behind the last one
  bool beside_forward = false;   // weights; else behind the optimizer
  bool each_micro_batch = false;
};

/// What planner/step_events puts into the order of a schedule.
struct StepParts {
  std::vector<StageTime> stages;
  DataExchange exchange{};
};

/// \param machine outlives the answer.
[[nodiscard]] StepParts step_parts(const std::vector<BlockRun>& runs, const Layout& layout,
                                   const PrecisionRecipe& recipe, const Machine& machine,
                                   const SoftwareStack& stack, const TimeConstants& constants = {});

/// From one micro-batch to the next, as the slowest stage has it.
struct StepPace {
  double forward_s = 0;   // while there are forwards alone
  double backward_s = 0;  // while there are backwards alone
  double reduce_s = 0;    // from one backward to the next in most of the step
};

/// The exchange of one stage's gradients behind or beside its backward.
struct StageExchange {
  double reduce_s = 0;  // exposed, behind its last backward
  double gather_s = 0;  // exposed, before its first forward or behind the optimizer
};
[[nodiscard]] StageExchange stage_exchange(const StageTime& stage, const DataExchange& exchange,
                                           const Layout& layout, const StepPace& pace);

}  // namespace lockstep::parallel
