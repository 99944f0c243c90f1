#include "lockstep/parallel/sync_batch_norm.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/model/layers.h"

namespace lockstep::parallel {
namespace {

/// Waits for the collective and adds how long that took.
void wait_for(comm::Work& work, double* waited_s) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  work.wait();
  if (waited_s == nullptr) return;
  *waited_s += std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

GroupStatistics::GroupStatistics(comm::Group& group, const std::string& layer,
                                 std::shared_ptr<double> waited_s)
    : group_(group),
      forward_purpose_("statistics of " + layer),
      backward_purpose_("gradients of the statistics of " + layer),
      waited_s_(std::move(waited_s)) {}

at::Tensor GroupStatistics::gather(const at::Tensor& own) {
  const at::NoGradGuard no_grad;
  const comm::Purpose purpose(forward_purpose_);
  const at::Tensor mine = own.to(group_.device());
  const at::Tensor all = at::empty({group_.size(), mine.numel()}, mine.options());
  wait_for(*group_.all_gather(all, mine), waited_s_.get());
  return all.cpu();
}

at::Tensor GroupStatistics::sum(const at::Tensor& own) {
  const at::NoGradGuard no_grad;
  const comm::Purpose purpose(backward_purpose_);
  const at::Tensor mine = own.to(group_.device());
  wait_for(*group_.all_reduce(mine, comm::ReduceOp::sum), waited_s_.get());
  return mine.cpu();
}

void keep_own_statistics(const model::Model& model) {
  for (const auto& block : model.blocks()) {
    for (const auto& module : block->modules()) {
      if (auto* layer = module->as<model::BatchNorm>()) layer->set_exchange(nullptr);
    }
  }
}

void share_statistics(const model::Model& model, comm::Group* group,
                      const std::shared_ptr<double>& waited_s) {
  LOCKSTEP_CHECK(group != nullptr, "batch normalisation over ranks has no group");
  for (std::size_t b = 0; b < model.blocks().size(); ++b) {
    for (const auto& item : model.blocks()[b]->named_modules(model.block_names()[b])) {
      auto* layer = item.value()->as<model::BatchNorm>();
      if (layer == nullptr) continue;
      layer->set_exchange(c10::make_intrusive<GroupStatistics>(*group, item.key(), waited_s));
    }
  }
}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, comm::Group& group)
    : torch::nn::Module("SyncBatchNorm"), options(options) {
  const std::int64_t channels = options.num_features();
  const auto parameter = [&](const char* name, double value) {
    const at::Tensor tensor =
        options.affine() ? at::full({channels}, value, at::kFloat) : at::Tensor();
    return register_parameter(name, tensor, /*requires_grad=*/options.affine());
  };
  const auto buffer = [&](const char* name, const at::Tensor& tensor) {
    return register_buffer(name, options.track_running_stats() ? tensor : at::Tensor());
  };
  weight = parameter("weight", 1);
  bias = parameter("bias", 0);
  running_mean = buffer("running_mean", at::zeros({channels}));
  running_var = buffer("running_var", at::ones({channels}));
  num_batches_tracked = buffer("num_batches_tracked", at::zeros({}, at::kLong));
  if (group.size() > 1) exchange_ = c10::make_intrusive<GroupStatistics>(group, "SyncBatchNorm");
}

double SyncBatchNormImpl::next_momentum() {
  if (!num_batches_tracked.defined()) return 0;
  num_batches_tracked.add_(1);
  if (options.momentum()) return *options.momentum();
  return 1.0 / num_batches_tracked.item<double>();  // the mean over all batches so far
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  const double momentum = is_training() ? next_momentum() : 0;
  if (exchange_ && is_training()) {
    return model::batch_norm_over_ranks(input, {weight, bias, running_mean, running_var},
                                        {momentum, options.eps()}, exchange_);
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var,
                        is_training() || !options.track_running_stats(), momentum, options.eps(),
                        /*cudnn_enabled=*/true);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "lockstep::parallel::SyncBatchNorm(" << options.num_features() << ")";
}

}  // namespace lockstep::parallel
