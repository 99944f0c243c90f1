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
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/control_block.h"
#include "lockstep/parallel/flat_parameters.h"
#include "lockstep/parallel/gradient_reducer.h"

namespace lockstep::parallel {

struct DataParallelOptions {
  config::OptimizerSection optimizer;  // name, lr (unused here), betas, weight decay, momentum ...
  config::Dtype compute = config::Dtype::fp32;  // bf16: parameters become bf16 beside fp32 masters
  ReducerOptions reducer;                       // leaves = micro-batches of this rank a step
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

  void begin_step() { reducer_.begin_step(); }
  /// Around each micro-batch: begin, then forward and backward(loss), or skip() for an empty part.
  void begin_micro_batch() { reducer_.begin_leaf(); }
  /// Runs backward of the summed loss; the last micro-batch starts the reductions as it goes.
  void backward(const model::LossSum& loss);
  void skip() { reducer_.end_leaf(0, 0, control_); }
  /// Collective: loss and weight summed over the global batch; gradients are ready.
  [[nodiscard]] StepSums reduce();
  /// L2 norm of the mean gradient over all parameters (fp64, chunk order); later updates are scaled
  /// so that it is at most `max_norm` (0 = measure only). After reduce().
  [[nodiscard]] double clip_grad_norm(double max_norm);
  /// Updates masters, moments and compute weights with the mean gradient. After reduce().
  void optimizer_step(double lr);
  /// Instead of optimizer_step: module buffers go back to what they were before the step.
  void drop_step() { reducer_.buffers().begin_micro_batch(); }

  /// Collective: one whole step of one micro-batch. \returns the mean loss over the global batch.
  /// \param loss computes the summed loss of this rank's part.
  double step(double lr, const std::function<model::LossSum()>& loss);

  [[nodiscard]] FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] const GradientReducer& reducer() const { return reducer_; }
  /// Updates made so far; set when a state is loaded.
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  config::OptimizerSection optimizer_;
  FlatParameters parameters_;
  GradientReducer reducer_;
  StepControl control_;
  std::int64_t updates_ = 0;
  std::int64_t weight_ = 0;
  double clip_factor_ = 1;
};

/// Cross entropy of logits [B, classes] against classes [B], summed over B.
[[nodiscard]] model::LossSum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target);

/// Parameters and buffers of a plain module by LibTorch's names, shared tensors once with aliases.
/// Parameters of normalisation layers keep fp32 under bf16 compute.
[[nodiscard]] std::vector<model::NamedTensor> module_parameters(const torch::nn::Module& module);
[[nodiscard]] std::vector<model::NamedTensor> module_buffers(const torch::nn::Module& module);

}  // namespace lockstep::parallel
