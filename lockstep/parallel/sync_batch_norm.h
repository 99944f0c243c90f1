// Batch normalisation over the samples of all ranks: SyncBatchNorm for modules of one's own, and
// the same for the models that are lists of blocks.
//
//   auto statistics = comm::join_beside_world("batch norm");
//   parallel::SyncBatchNorm bn{register_module("bn", parallel::SyncBatchNorm(64, *statistics))};
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/model/batch_norm.h"
#include "lockstep/model/model.h"

namespace lockstep::parallel {

// B samples, C channels.

/// The statistics of one layer go over a group.
class GroupStatistics : public model::StatisticsExchange {
 public:
  /// \param group outlives it. \param layer for messages: "stage1.0.bn1". \param waited_s grows by
  /// the seconds in collectives; null = nobody wants to know.
  GroupStatistics(comm::Group& group, const std::string& layer,
                  std::shared_ptr<double> waited_s = nullptr);
  [[nodiscard]] at::Tensor gather(const at::Tensor& own) override;
  [[nodiscard]] at::Tensor sum(const at::Tensor& own) override;

 private:
  comm::Group& group_;
  std::string forward_purpose_;
  std::string backward_purpose_;
  std::shared_ptr<double> waited_s_;
};

/// Every batch normalisation of the model takes its statistics over `group` from now on.
/// \param group outlives the model. \param waited_s as GroupStatistics.
void share_statistics(const model::Model& model, comm::Group* group,
                      const std::shared_ptr<double>& waited_s);

/// Undoes it: statistics are of this rank's samples alone.
void keep_own_statistics(const model::Model& model);

/// In place of torch::nn::BatchNorm1d, 2d and 3d: same options, names of tensors and results, but
/// in training the statistics are those of all ranks' samples; batches may differ in size. Every
/// rank runs the same layers in forward and in backward; one without samples runs them with an
/// input of no rows, and DataParallel then counts it with weight 0. In evaluation, and with one
/// rank, it is plain batch normalisation.
class SyncBatchNormImpl : public torch::nn::Module {
 public:
  /// \param group outlives the module. Best one of its own (comm::join_beside_world): in the group
  /// of the gradients, statistics wait behind buckets.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, comm::Group& group);
  /// Collective in training: [B,C] or [B,C,...], fp32, bf16, fp16 or fp64.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::BatchNormOptions options;
  at::Tensor weight;               // [C], when affine
  at::Tensor bias;                 // [C], when affine
  at::Tensor running_mean;         // [C] buffer, when track_running_stats
  at::Tensor running_var;          // [C] buffer, likewise
  at::Tensor num_batches_tracked;  // int64 buffer, likewise

 private:
  /// The share of a new batch in the running statistics; counts the batch.
  [[nodiscard]] double next_momentum();

  model::SharedExchange exchange_;  // null with one rank
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace lockstep::parallel
