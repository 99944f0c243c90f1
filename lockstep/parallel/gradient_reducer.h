// Sums gradients over micro-batches and ranks, bucket by bucket, while backward still runs.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/parallel/bucket_plan.h"
#include "lockstep/parallel/control_block.h"
#include "lockstep/parallel/flat_parameters.h"
#include "lockstep/parallel/module_buffers.h"

namespace lockstep::parallel {

struct ReducerOptions {
  BucketSizes sizes;
  config::Dtype reduce = config::Dtype::fp32;  // type on the wire; the last bucket is always fp32
  bool ordered = false;                        // balanced tree over all leaves; else running sums
  std::int64_t leaves = 1;  // micro-batches of this rank a step; ordered: a power of two
};

/// Takes each gradient in a post-accumulate-grad hook, copies it (as fp32) into its bucket, and
/// starts the bucket's all_reduce as soon as the last micro-batch has filled it. After a step the
/// gradient of an fp32 parameter is a view of its bucket: the SUM over the global batch, not the
/// mean. Holds log2(leaves) pending partial sums when ordered (architecture.md, "Same numbers").
class GradientReducer {
 public:
  /// \param parameters and \param group outlive the reducer.
  GradientReducer(FlatParameters& parameters, const std::vector<model::NamedTensor>& buffers,
                  comm::Group& group, const ReducerOptions& options);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  void begin_step();
  /// Before the forward of each of the `leaves` micro-batches.
  void begin_leaf();
  /// After its backward (or instead of it, for an empty part: weight 0).
  /// \param control goes out with the last leaf.
  void end_leaf(double loss_sum, std::int64_t weight, const StepControl& control);
  /// Collective: returns when every bucket is summed over all ranks. Buffers are set to their
  /// means.
  [[nodiscard]] StepSums wait();

  /// The summed gradient of a parameter: elements in the parameter's own stride order. After
  /// wait().
  [[nodiscard]] std::span<const float> gradient(std::size_t parameter) const;
  /// False when no micro-batch on any rank used it in this step. After wait().
  [[nodiscard]] bool used(std::size_t parameter) const;

  [[nodiscard]] ModuleBuffers& buffers() { return buffers_; }
  [[nodiscard]] std::size_t bucket_count() const { return plan_.buckets.size(); }

 private:
  class ReadyHook;
  enum class Order : std::uint8_t { unknown, observed, adopted };
  struct Bucket {
    std::size_t left = 0;  // slots not ready yet in this leaf
    bool started = false;
    std::string name;   // "bucket 4: layer3.0.conv1.weight .. layer3.1.bn2.bias"
    at::Tensor staged;  // low-precision copy on the wire
    std::unique_ptr<comm::Work> work;
  };

  void adopt_plan(const std::vector<std::size_t>& ready_order);
  void adopt_observed_order();
  void on_gradient(std::size_t parameter, const at::Tensor& variable);
  void store(const at::Tensor& gradient, std::size_t slot);
  void start_ready_buckets();
  void start(std::size_t bucket);
  void fold_pending(const BucketRange& range);
  void keep_partial_sum();
  void close_leaf_block(double loss_sum, std::int64_t weight, const StepControl& control);
  [[nodiscard]] std::string name_of(std::size_t bucket) const;
  [[nodiscard]] BucketRange range_of(std::size_t bucket) const;
  [[nodiscard]] at::Tensor new_flat() const;
  [[nodiscard]] std::span<float> block();
  [[nodiscard]] std::span<const float> block() const;
  [[nodiscard]] bool last_leaf() const { return leaf_ + 1 == options_.leaves; }

  FlatParameters& parameters_;
  comm::Group& group_;
  ReducerOptions options_;
  ModuleBuffers buffers_;
  ControlBlock control_;
  BucketPlan plan_;
  std::vector<std::size_t> slot_of_;    // by parameter
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<Bucket> buckets_;
  std::size_t next_bucket_ = 0;  // buckets start in order, the same on every rank
  std::unique_ptr<comm::Work> integer_work_;
  at::Tensor current_;               // fp32 [plan total + control]: this leaf's, then the sum
  std::vector<at::Tensor> pending_;  // partial sums by tree level; undefined where none
  std::vector<at::Tensor> spare_;
  std::vector<bool> seen_;             // by parameter, in this leaf
  std::vector<std::size_t> observed_;  // parameters in the order of the first step's hooks
  Order order_ = Order::unknown;
  std::int64_t leaf_ = 0;
};

}  // namespace lockstep::parallel
