#include "lockstep/parallel/gradient_reducer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/update.h"

namespace lockstep::parallel {

class GradientReducer::ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(GradientReducer& reducer, std::size_t parameter)
      : reducer_(reducer), parameter_(parameter) {}
  void operator()(const at::Tensor& variable) override {
    reducer_.on_gradient(parameter_, variable);
  }

 private:
  GradientReducer& reducer_;
  std::size_t parameter_;
};

GradientReducer::GradientReducer(FlatParameters& parameters,
                                 const std::vector<model::NamedTensor>& buffers, comm::Group& group,
                                 const ReducerOptions& options)
    : parameters_(parameters),
      group_(group),
      options_(options),
      buffers_(buffers),
      control_(group.size(), parameters.views().size(), buffers_.float_count()),
      seen_(parameters.views().size(), false) {
  const bool power_of_two = (options.leaves & (options.leaves - 1)) == 0;
  LOCKSTEP_CHECK(options.leaves >= 1 && (!options.ordered || power_of_two),
                 "an ordered sum needs a power of two of leaves on each rank");
  std::vector<std::size_t> backward_order(parameters.views().size());
  std::iota(backward_order.rbegin(), backward_order.rend(), std::size_t{0});
  adopt_plan(backward_order);
  for (std::size_t i = 0; i < parameters.views().size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters.views()[i].variable,
                                                   std::make_unique<ReadyHook>(*this, i));
  }
}

GradientReducer::~GradientReducer() {
  for (const ParameterViews& views : parameters_.views()) {
    torch::autograd::impl::set_post_acc_grad_hooks(views.variable, nullptr);
    views.variable.mutable_grad().reset();
  }
}

void GradientReducer::adopt_plan(const std::vector<std::size_t>& ready_order) {
  plan_ = plan_buckets(parameters_.counts(), ready_order, options_.sizes);
  slot_of_.assign(ready_order.size(), 0);
  bucket_of_.assign(ready_order.size(), 0);
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    for (std::size_t s = 0; s < plan_.buckets[b].slots; ++s) {
      const std::size_t slot = plan_.buckets[b].first_slot + s;
      slot_of_[plan_.slots[slot].parameter] = slot;
      bucket_of_[plan_.slots[slot].parameter] = b;
    }
  }
  buckets_ = std::vector<Bucket>(plan_.buckets.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].name = name_of(b);
  spare_.clear();
  pending_.clear();
  current_ = new_flat();
}

at::Tensor GradientReducer::new_flat() const {
  const memory::Scope scope(memory::Category::gradients);
  return group_.symmetric_zeros(plan_.total + control_.size(), at::kFloat);
}

std::span<float> GradientReducer::block() {
  float* begin = current_.mutable_data_ptr<float>() + plan_.total;
  return {begin, static_cast<std::size_t>(control_.size())};
}

std::span<const float> GradientReducer::block() const {
  const float* begin = current_.const_data_ptr<float>() + plan_.total;
  return {begin, static_cast<std::size_t>(control_.size())};
}

std::string GradientReducer::name_of(std::size_t bucket) const {
  const BucketRange& range = plan_.buckets[bucket];
  std::string name = "bucket " + std::to_string(bucket);
  const auto parameter = [&](std::size_t slot) {
    return parameters_.views()[plan_.slots[slot].parameter].name;
  };
  if (range.slots > 0) name += ": " + parameter(range.first_slot);
  if (range.slots > 1) name += " .. " + parameter(range.first_slot + range.slots - 1);
  return name;
}

/// The bucket's elements; the last bucket carries the control block behind its gradients.
BucketRange GradientReducer::range_of(std::size_t bucket) const {
  BucketRange range = plan_.buckets[bucket];
  if (bucket + 1 == plan_.buckets.size()) range.count += control_.size();
  return range;
}

void GradientReducer::begin_step() {
  if (order_ == Order::observed) adopt_observed_order();
  leaf_ = 0;
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.started = false;
  buffers_.begin_step();
}

void GradientReducer::begin_leaf() {
  LOCKSTEP_CHECK(leaf_ < options_.leaves, "more micro-batches in a step than were declared");
  if (leaf_ > 0) buffers_.begin_micro_batch();
  std::fill(seen_.begin(), seen_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].left = plan_.buckets[b].slots;
  for (const ParameterViews& views : parameters_.views()) views.variable.mutable_grad().reset();
}

void GradientReducer::on_gradient(std::size_t parameter, const at::Tensor& variable) {
  const at::NoGradGuard no_grad;
  if (seen_[parameter]) {
    throw UsageError({{"LS-7001", parameters_.views()[parameter].name,
                       "got a second gradient in one micro-batch",
                       "run one backward per micro-batch: add the losses before backward"}});
  }
  seen_[parameter] = true;
  at::Tensor& gradient = variable.mutable_grad();
  store(gradient, slot_of_[parameter]);
  const ParameterViews& views = parameters_.views()[parameter];
  if (views.low_precision) {
    gradient.reset();
  } else {  // the user sees the bucket
    gradient = current_.as_strided(views.master.sizes(), views.master.strides(),
                                   plan_.slots[slot_of_[parameter]].offset);
  }
  if (order_ == Order::unknown && last_leaf()) observed_.push_back(parameter);
  --buckets_[bucket_of_[parameter]].left;
  if (last_leaf()) start_ready_buckets();
}

/// Writes (first leaf, or ordered) or adds a gradient into its slot of the current flat buffer.
void GradientReducer::store(const at::Tensor& gradient, std::size_t slot) {
  const GradientSlot& place = plan_.slots[slot];
  const ParameterViews& views = parameters_.views()[place.parameter];
  float* into = current_.mutable_data_ptr<float>() + place.offset;
  const bool add = !options_.ordered && leaf_ > 0;
  const bool plain = gradient.scalar_type() == at::kFloat && gradient.layout() == at::kStrided &&
                     gradient.strides() == views.master.strides();
  if (plain && add) {
    optim::add_into(into, gradient.const_data_ptr<float>(), place.count);
  } else if (plain) {
    std::memcpy(into, gradient.const_data_ptr<float>(), static_cast<std::size_t>(place.count) * 4);
  } else {
    const at::Tensor view =
        current_.as_strided(views.master.sizes(), views.master.strides(), place.offset);
    const at::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
    add ? view.add_(dense) : view.copy_(dense);
  }
}

void GradientReducer::end_leaf(double loss_sum, std::int64_t weight, const StepControl& control) {
  const bool add = !options_.ordered && leaf_ > 0;
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (seen_[p] || add) continue;
    const GradientSlot& slot = plan_.slots[slot_of_[p]];
    std::fill_n(current_.mutable_data_ptr<float>() + slot.offset, slot.count, 0.0F);
  }
  buffers_.end_micro_batch();
  close_leaf_block(loss_sum, weight, last_leaf() ? control : StepControl{});
  if (last_leaf()) {
    for (Bucket& bucket : buckets_) bucket.left = 0;
    while (next_bucket_ < buckets_.size()) start(next_bucket_++);
    integer_work_ = buffers_.reduce_integers(group_);
    if (order_ == Order::unknown) order_ = Order::observed;
  } else if (options_.ordered) {
    keep_partial_sum();
  }
  ++leaf_;
}

/// Writes or adds this leaf's control numbers behind the gradients.
void GradientReducer::close_leaf_block(double loss_sum, std::int64_t weight,
                                       const StepControl& control) {
  std::vector<float> leaf(static_cast<std::size_t>(control_.size()), 0.0F);
  control_.set_loss(leaf, loss_sum, weight);
  control_.set_control(leaf, group_.rank(), control);
  for (std::size_t p = 0; p < seen_.size(); ++p) control_.set_used(leaf, p, seen_[p]);
  buffers_.read(control_.buffers(leaf));
  const std::span<float> into = block();
  if (!options_.ordered && leaf_ > 0) {
    optim::add_into(into.data(), leaf.data(), control_.size());
  } else {
    std::copy(leaf.begin(), leaf.end(), into.begin());
  }
}

/// The binary counter of the tree: equal levels merge, older sums on the left.
void GradientReducer::keep_partial_sum() {
  std::size_t level = 0;
  for (; level < pending_.size() && pending_[level].defined(); ++level) {
    optim::add_into(pending_[level].mutable_data_ptr<float>(), current_.const_data_ptr<float>(),
                    current_.numel());
    std::swap(pending_[level], current_);
    spare_.push_back(std::exchange(pending_[level], at::Tensor()));
  }
  if (level == pending_.size()) pending_.emplace_back();
  pending_[level] = current_;
  if (spare_.empty()) spare_.push_back(new_flat());
  current_ = spare_.back();
  spare_.pop_back();
}

/// Adds the pending partial sums of the last leaf's ancestors, lowest level first.
void GradientReducer::fold_pending(const BucketRange& range) {
  float* into = current_.mutable_data_ptr<float>() + range.offset;
  for (const at::Tensor& sum : pending_) {
    if (sum.defined())
      optim::add_into(into, sum.const_data_ptr<float>() + range.offset, range.count);
  }
}

/// Starts buckets that are full, strictly in order, but the last: it waits for the control block.
void GradientReducer::start_ready_buckets() {
  while (next_bucket_ + 1 < buckets_.size() && buckets_[next_bucket_].left == 0)
    start(next_bucket_++);
}

void GradientReducer::start(std::size_t index) {
  Bucket& bucket = buckets_[index];
  const BucketRange range = range_of(index);
  fold_pending(range);
  bucket.started = true;
  if (group_.size() == 1) return;
  const bool last = index + 1 == buckets_.size();
  at::Tensor wire = current_.narrow(0, range.offset, range.count);
  if (options_.reduce == config::Dtype::bf16 && !last) {
    const memory::Scope scope(memory::Category::communication);
    bucket.staged = wire.to(at::kBFloat16);
    wire = bucket.staged;
  }
  const comm::Purpose purpose(bucket.name);
  bucket.work = group_.all_reduce(wire, comm::ReduceOp::sum,
                                  options_.ordered ? comm::Order::tree : comm::Order::any);
}

StepSums GradientReducer::wait() {
  LOCKSTEP_CHECK(leaf_ == options_.leaves, "a step ended before all of its micro-batches");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    if (bucket.work) bucket.work->wait();
    bucket.work.reset();
    if (!bucket.staged.defined()) continue;
    const BucketRange range = range_of(b);
    current_.narrow(0, range.offset, range.count).copy_(bucket.staged);
    bucket.staged.reset();
  }
  if (integer_work_) integer_work_->wait();
  integer_work_.reset();
  for (at::Tensor& sum : pending_) {
    if (sum.defined()) spare_.push_back(std::exchange(sum, at::Tensor()));
  }
  const std::int64_t terms = options_.leaves * group_.size();
  buffers_.finish_step(control_.buffers(block()), terms);
  return control_.sums(block());
}

/// Collective, once: all ranks take rank 0's order of the first step, if it differs from the
/// plan's.
void GradientReducer::adopt_observed_order() {
  order_ = Order::adopted;
  std::vector<std::size_t> order = std::exchange(observed_, {});
  if (group_.size() == 1) return;
  for (const GradientSlot& slot : plan_.slots) {  // unused parameters: at the end
    if (std::find(order.begin(), order.end(), slot.parameter) == order.end()) {
      order.push_back(slot.parameter);
    }
  }
  at::Tensor wire = at::empty({static_cast<std::int64_t>(order.size())}, at::kLong);
  std::copy(order.begin(), order.end(), wire.mutable_data_ptr<std::int64_t>());
  const comm::Purpose purpose("the order of the gradients");
  group_.broadcast(wire, 0)->wait();
  const std::int64_t* agreed = wire.const_data_ptr<std::int64_t>();
  std::transform(agreed, agreed + order.size(), order.begin(),
                 [](std::int64_t p) { return static_cast<std::size_t>(p); });
  const bool same =
      std::equal(order.begin(), order.end(), plan_.slots.begin(),
                 [](std::size_t p, const GradientSlot& s) { return p == s.parameter; });
  if (!same) adopt_plan(order);
}

std::span<const float> GradientReducer::gradient(std::size_t parameter) const {
  const GradientSlot& slot = plan_.slots[slot_of_[parameter]];
  return {current_.const_data_ptr<float>() + slot.offset, static_cast<std::size_t>(slot.count)};
}

bool GradientReducer::used(std::size_t parameter) const {
  return control_.used(block(), parameter);
}

}  // namespace lockstep::parallel
