// Data-parallel training of any module: what a C++ user of LibTorch adds to a plain loop.
//
//   auto group = comm::join_world();
//   parallel::DataParallel replica(*net, *group, options);
//   for (...) loss = replica.step(lr, [&] { return parallel::cross_entropy_sum(net->forward(x), y);
//   });
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/model.h"
#include "lockstep/optim/loss_scale.h"
#include "lockstep/optim/update.h"
#include "lockstep/parallel/control_block.h"
#include "lockstep/parallel/flat_parameters.h"
#include "lockstep/parallel/gradient_reducer.h"
#include "lockstep/parallel/loss_scaling.h"
#include "lockstep/parallel/parameter_groups.h"

namespace lockstep::parallel {

/// Local SGD (Stich 2019): from some update on each rank updates alone, with its own gradients, and
/// parameters and moments are averaged after every `every`-th update. Post-local SGD (Lin et al.
/// 2020) starts later than 0.
struct LocalSteps {
  std::int64_t every = 1;  // 1 = gradients are summed in every step
  std::int64_t from = 0;   // updates made before
};

struct DataParallelOptions {
  config::OptimizerSection optimizer;  // name, lr (unused here), betas, weight decay, momentum ...
  config::Dtype compute = config::Dtype::fp32;  // else parameters become that beside fp32 masters
  optim::LossScaleOptions loss_scale;           // of fp16 compute
  std::vector<ParameterRule> rules;             // the first that matches holds for a parameter
  LocalSteps local;
  ReducerOptions reducer;  // leaves = micro-batches of this rank a step
};

/// One replica of a model: flat parameters, reduced gradients and the update. Every rank of the
/// group makes one with an equal model; rank 0's parameters and buffers win.
class DataParallel {
 public:
  /// Collective. \param module outlives the replica; its parameters become views of flat buffers.
  DataParallel(torch::nn::Module& module, comm::Group& group, const DataParallelOptions& options);
  /// Collective. The same for a list of tensors (a model of blocks, a pipeline stage).
  DataParallel(const std::vector<model::NamedTensor>& parameters,
               const std::vector<model::NamedTensor>& buffers, comm::Group& group,
               const DataParallelOptions& options);

  /// What goes out with the sums of this step. Call before its last micro-batch.
  void set_control(const StepControl& control) { control_ = control; }

  /// Between steps: how many micro-batches each has from now on. Not with an ordered sum.
  void set_leaves(std::int64_t leaves);
  /// \throws UsageError (LS-7006) when what was frozen in the beginning is so no more.
  void begin_step();
  /// Around each micro-batch: begin, then forward and backward(loss), or skip() for an empty part.
  /// A module with collectives in forward (SyncBatchNorm) runs an empty part too, as an input of no
  /// rows and a loss of weight 0: otherwise the other ranks would wait for this one.
  void begin_micro_batch() { reducer_.begin_leaf(); }
  /// Runs backward of the summed loss; the last micro-batch starts the reductions as it goes.
  void backward(const model::LossSum& loss);
  void skip() { reducer_.end_leaf(0, 0, control_); }
  /// Collective: loss and weight summed over the global batch; gradients are ready.
  [[nodiscard]] StepSums reduce();
  /// L2 norm of the mean gradient over all parameters (fp64, chunk order); later updates are scaled
  /// so that it is at most `max_norm` (0 = measure only). After reduce().
  [[nodiscard]] double clip_grad_norm(double max_norm);
  /// Updates masters, moments and compute weights with the mean gradient. After reduce(). \returns
  /// false when gradients were not finite in fp16, computed or on their way: then nothing is
  /// updated, drop_step() is done and a dynamic loss scale falls, on all ranks alike.
  bool optimizer_step(double lr);
  /// Collective: makes parameters and moments of all ranks equal, if local steps made them differ.
  void settle();
  /// Instead of optimizer_step: module buffers go back to what they were before the step.
  void drop_step() { reducer_.drop_step(); }

  /// Collective: one whole step of one micro-batch. \returns the mean loss over the global batch.
  /// \param loss computes the summed loss of this rank's part. \throws Error (LS-7104) when fp16
  /// made optim::kMaxSkippedSteps steps in a row not finite.
  double step(double lr, const std::function<model::LossSum()>& loss);

  [[nodiscard]] FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] GradientReducer& reducer() { return reducer_; }
  [[nodiscard]] const GradientReducer& reducer() const { return reducer_; }
  /// Which parameters got no gradient on any rank so far, and which on some ranks only when the
  /// ranks last looked: after a step in which that changed. to_text() puts it in words.
  [[nodiscard]] ParameterUse parameter_use() const { return reducer_.graph().report(); }
  /// Updates made so far; set when a state is loaded.
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates);

  /// Of fp16 compute; null without.
  [[nodiscard]] const optim::LossScale* loss_scale() const { return scale_ ? &*scale_ : nullptr; }
  void set_loss_scale(const optim::LossScaleState& state);
  /// Steps that fp16 made not finite, since the last that was finite.
  [[nodiscard]] std::int64_t skips_in_a_row() const { return skips_in_a_row_; }
  /// Where the last reduced step first was not finite, on any rank. \param blocks names of what
  /// note_not_finite_output() counts.
  [[nodiscard]] std::optional<NotFinite> not_finite(
      const std::vector<std::string>& blocks = {}) const;
  /// Before the backward of a micro-batch: the output of that block was not finite here.
  void note_not_finite_output(std::size_t block);

  /// How many parameters each rule holds for.
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_.groups(); }

 private:
  [[nodiscard]] bool is_local() const;  // the step that comes
  [[nodiscard]] double mean_over_ranks(double value);
  void update_parameters(double lr);
  void backward_scaled(const model::LossSum& loss, double value);
  [[nodiscard]] std::vector<optim::UpdateStep> group_steps(double lr) const;

  comm::Group& group_;
  config::OptimizerSection optimizer_;
  FlatParameters parameters_;
  GradientReducer reducer_;
  ParameterGroups groups_;
  std::optional<optim::LossScale> scale_;  // of fp16 compute
  std::int64_t parts_;                     // micro-batches of a step over all ranks
  std::vector<NotFiniteAt> not_finite_;    // of the last reduced step, by rank
  std::optional<std::size_t> overflown_;   // StepSums::overflown_bucket of that step
  bool finite_ = true;                     // all of it
  std::int64_t skips_in_a_row_ = 0;
  LocalSteps local_;
  bool differs_ = false;    // from other ranks, since the last average
  bool ends_soon_ = false;  // somebody wants to stop or go back: the state is about to be saved
  StepControl control_;
  std::int64_t updates_ = 0;
  std::int64_t weight_ = 0;  // of the global batch
  double clip_factor_ = 1;
};

/// Cross entropy of logits [B, classes] against classes [B], summed over B.
[[nodiscard]] model::LossSum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target);

/// Parameters and buffers of a plain module by LibTorch's names, shared tensors once with aliases.
/// Parameters of normalisation layers keep fp32 under narrower compute.
[[nodiscard]] std::vector<model::NamedTensor> module_parameters(const torch::nn::Module& module);
[[nodiscard]] std::vector<model::NamedTensor> module_buffers(const torch::nn::Module& module);

}  // namespace lockstep::parallel
