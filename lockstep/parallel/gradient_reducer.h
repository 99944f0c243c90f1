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
#include "lockstep/parallel/exchange/exchange.h"
#include "lockstep/parallel/flat_parameters.h"
#include "lockstep/parallel/graph_watch.h"
#include "lockstep/parallel/module_buffers.h"

namespace lockstep::parallel {

struct ReducerOptions {
  BucketSizes sizes;
  std::string exchange = "fp32";  // how buckets travel: parallel/exchange/registry.h
  double exchange_weight = 1;     // ExchangeSetting::weight
  std::int64_t powersgd_rank = 4;
  std::int64_t powersgd_from = 0;
  std::uint64_t seed = 0;
  bool ordered = false;       // balanced tree over all leaves; else running sums
  std::int64_t leaves = 1;    // micro-batches of this rank a step; ordered: a power of two
  bool static_graph = false;  // every step gives gradients to the same parameters
};

/// One bucket in a step, in nanoseconds (comm::monotonic_ns).
struct BucketTimes {
  std::int64_t ready_ns = 0;   // its last gradient was there
  std::int64_t issued_ns = 0;  // this rank entered its exchange
  std::int64_t done_ns = 0;    // the exchange was over
  std::int64_t wait_ns = 0;    // for which this rank waited with nothing else to do

  /// \pre done_ns is set where it is known.
  void end_wait(std::int64_t begin_ns, std::int64_t end_ns) {
    wait_ns = end_ns - begin_ns;
    if (done_ns == 0) done_ns = end_ns;
  }
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

  /// Between steps, and not when ordered: micro-batches of this rank a step from now on.
  void set_leaves(std::int64_t leaves);
  [[nodiscard]] std::int64_t leaves() const { return options_.leaves; }
  /// \param summed gradients are exchanged in this step; else each rank keeps its own sums, and
  /// only the control numbers travel.
  /// \param updates made before.
  void begin_step(bool summed = true, std::int64_t updates = 0);
  /// Before the forward of each of the `leaves` micro-batches.
  void begin_leaf();
  /// Before the backward of a loss that was multiplied by `scale`: its gradients are divided by it
  /// on their way into the buckets, and looked at. What is not finite stays so in the sum.
  void set_loss_scale(double scale) { unscale_ = static_cast<float>(1 / scale); }
  /// The one in force; 1 where losses are not scaled.
  [[nodiscard]] double loss_scale() const { return unscale_ == 0 ? 1 : 1 / double{unscale_}; }
  /// The first of a step goes out with the last leaf's control numbers.
  void note_not_finite(const NotFiniteAt& where);
  /// After its backward (or instead of it, for an empty part: weight 0). Once more after it threw
  /// for want of memory: then all that had not been started is, with this `control`; the step must
  /// be dropped, on all ranks.
  /// \param control goes out with the last leaf.
  void end_leaf(double loss_sum, std::int64_t weight, const StepControl& control);
  /// Collective: returns when every bucket is summed over all ranks. Buffers are set to their
  /// means.
  [[nodiscard]] StepSums wait();
  /// After wait(), on all ranks: the step does not count. Module buffers are those of before it.
  void drop_step();
  /// Of compressed exchanges: a state was loaded, on all ranks.
  void forget_errors();

  /// The summed gradient of a parameter: elements in the parameter's own stride order. After
  /// wait().
  [[nodiscard]] std::span<const float> gradient(std::size_t parameter) const;
  /// Samples or tokens that it is the sum over. After wait().
  [[nodiscard]] std::int64_t gradient_weight() const { return gradient_weight_; }
  /// False when no micro-batch whose gradients are in the sum used it. After wait().
  [[nodiscard]] bool used(std::size_t parameter) const;

  [[nodiscard]] ModuleBuffers& buffers() { return buffers_; }
  [[nodiscard]] const ModuleBuffers& buffers() const { return buffers_; }
  [[nodiscard]] std::size_t bucket_count() const { return plan_.buckets.size(); }
  [[nodiscard]] const std::string& bucket_name(std::size_t bucket) const;
  [[nodiscard]] std::int64_t bucket_bytes(std::size_t bucket) const;  // of its fp32 gradients
  /// Whether gradients are exchanged in this step, and buckets with them.
  [[nodiscard]] bool summed() const { return summed_; }
  /// Of the last step. After wait().
  [[nodiscard]] const BucketTimes& bucket_times(std::size_t bucket) const;
  /// In this step so far.
  [[nodiscard]] std::size_t started_buckets() const { return next_bucket_; }
  [[nodiscard]] GraphWatch& graph() { return graph_; }
  [[nodiscard]] const GraphWatch& graph() const { return graph_; }

 private:
  class ReadyHook;
  enum class Order : std::uint8_t { unknown, observed, adopted };
  struct Bucket {
    std::size_t expected = 0;  // slots that get a gradient
    std::size_t left = 0;      // of those, not ready yet in this leaf
    bool is_whole = false;     // the pending partial sums are in it
    std::string name;          // "bucket 4: layer3.0.conv1.weight .. layer3.1.bn2.bias"
    BucketTimes times;
  };

  void adopt_plan(const std::vector<std::size_t>& ready_order);
  void adopt_observed_order();
  void offer_places();
  [[nodiscard]] at::Tensor view_of(std::size_t slot) const;
  void on_gradient(std::size_t parameter, const at::Tensor& variable);
  void store(const at::Tensor& gradient, std::size_t slot);
  void store_rows(const at::Tensor& gradient, const GradientSlot& place, bool add);
  void store_scaled(const at::Tensor& gradient, const GradientSlot& place, bool add);
  void count_expected();
  void end_graph(const StepSums& sums);
  void start_ready_buckets();
  void start_next();
  void fold_pending(const BucketRange& range);
  void keep_partial_sum();
  void close_leaf(double loss_sum, std::int64_t weight, StepControl own);
  void close_leaf_block(double loss_sum, std::int64_t weight, const StepControl& control);
  void start_control();
  void finish_buckets();
  [[nodiscard]] std::string name_of(std::size_t bucket) const;
  [[nodiscard]] std::vector<BucketContent> contents() const;
  [[nodiscard]] BucketRange range_of(std::size_t bucket) const;
  /// For another order of the same parameters: zeros between them too.
  void zero_flats() {
    current_.zero_();
    for (at::Tensor& flat : spare_) flat.zero_();
  }
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
  std::size_t next_bucket_ = 0;         // buckets start in order, the same on every rank
  std::unique_ptr<Exchange> exchange_;  // null with one rank
  std::unique_ptr<comm::Work> integer_work_;
  bool summed_ = true;                        // this step
  std::unique_ptr<comm::Work> control_work_;  // of a step that sums no gradients
  std::vector<float> own_block_;              // this rank's control numbers of such a step
  std::int64_t gradient_weight_ = 0;
  at::Tensor current_;                  // fp32 [plan total + control]: this leaf's, then the sum
  std::vector<at::Tensor> slot_views_;  // of current_, by slot; empty when ordered: it changes
  std::vector<at::Tensor> pending_;     // partial sums by tree level; undefined where none
  std::vector<at::Tensor> spare_;
  std::vector<bool> seen_;  // by parameter, in this leaf
  GraphWatch graph_;
  std::vector<std::size_t> observed_;  // parameters in the order of the first step's hooks
  Order order_ = Order::unknown;
  std::int64_t leaf_ = 0;
  bool leaf_is_closed_ = false;  // its numbers stand in the control block
  float unscale_ = 0;            // 0 = losses are not scaled
  NotFiniteAt not_finite_;       // of this step, on this rank
};

}  // namespace lockstep::parallel
