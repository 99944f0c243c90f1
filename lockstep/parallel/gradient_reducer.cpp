#include "lockstep/parallel/gradient_reducer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"
#include "lockstep/model/gradient_place.h"
#include "lockstep/optim/update.h"
#include "lockstep/parallel/exchange/registry.h"
#include "lockstep/parallel/sparse_rows.h"

namespace lockstep::parallel {

namespace {

std::vector<std::string> names_of(const FlatParameters& parameters) {
  std::vector<std::string> names;
  for (const ParameterViews& views : parameters.views()) names.push_back(views.name);
  return names;
}

}  // namespace

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
      seen_(parameters.views().size(), false),
      graph_(names_of(parameters), options.static_graph) {
  const bool power_of_two = (options.leaves & (options.leaves - 1)) == 0;
  LOCKSTEP_CHECK(options.leaves >= 1 && (!options.ordered || power_of_two),
                 "an ordered sum needs a power of two of leaves on each rank");
  if (group.size() > 1) {
    exchange_ = make_exchange(
        options.exchange,
        {group, options.ordered ? comm::Order::tree : comm::Order::any, options.exchange_weight,
         options.powersgd_rank, options.powersgd_from, options.seed});
  }
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
  count_expected();
  pending_.clear();
  slot_views_.clear();
  current_.defined() ? zero_flats() : void(current_ = new_flat());
  for (std::size_t s = 0; s < plan_.slots.size() && !options_.ordered; ++s) {
    slot_views_.push_back(view_of(s));
  }
  if (exchange_ != nullptr) exchange_->adopt(contents());
}

/// A parameter of several dimensions is a matrix: its outermost dimension in memory by all others.
std::vector<BucketContent> GradientReducer::contents() const {
  std::vector<BucketContent> contents;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketRange range = range_of(b);
    BucketContent content{buckets_[b].name, range.count, {}, b + 1 == buckets_.size()};
    for (std::size_t s = range.first_slot; s < range.first_slot + range.slots; ++s) {
      const GradientSlot& slot = plan_.slots[s];
      const at::Tensor& master = parameters_.views()[slot.parameter].master;
      if (master.dim() < 2 || slot.count == 0) continue;
      const auto outermost = std::max_element(master.strides().begin(), master.strides().end());
      const std::int64_t rows = master.size(outermost - master.strides().begin());
      content.matrices.push_back({slot.offset - range.offset, rows, slot.count / rows});
    }
    contents.push_back(std::move(content));
  }
  return contents;
}

/// A bucket is full without the parameters that are known to be unused: their slots stay zero.
void GradientReducer::count_expected() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto first =
        plan_.slots.begin() + static_cast<std::ptrdiff_t>(plan_.buckets[b].first_slot);
    buckets_[b].expected = static_cast<std::size_t>(
        std::count_if(first, first + static_cast<std::ptrdiff_t>(plan_.buckets[b].slots),
                      [&](const GradientSlot& slot) { return !graph_.is_unused(slot.parameter); }));
  }
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

void GradientReducer::set_leaves(std::int64_t leaves) {
  LOCKSTEP_CHECK(leaves >= 1 && !options_.ordered, "an ordered sum has a fixed number of leaves");
  options_.leaves = leaves;
}

void GradientReducer::begin_step(bool summed, std::int64_t updates) {
  if (order_ == Order::observed) adopt_observed_order();
  leaf_ = 0;
  summed_ = summed || group_.size() == 1;
  if (exchange_ != nullptr) exchange_->begin_step(updates);
  next_bucket_ = 0;
  not_finite_ = {};
  for (Bucket& bucket : buckets_) {
    bucket.is_whole = false;
    bucket.times = {};
  }
  graph_.begin_step();
  buffers_.begin_step();
}

void GradientReducer::begin_leaf() {
  LOCKSTEP_CHECK(leaf_ < options_.leaves, "more micro-batches in a step than were declared");
  leaf_is_closed_ = false;
  if (leaf_ > 0) buffers_.begin_micro_batch();
  std::fill(seen_.begin(), seen_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].left = buckets_[b].expected;
  for (const ParameterViews& views : parameters_.views()) views.variable.mutable_grad().reset();
  offer_places();
}

/// A gradient that is neither added to another, nor narrower, nor scaled can be made in its slot.
void GradientReducer::offer_places() {
  model::withdraw_gradient_places();
  if (leaf_ > 0 || options_.ordered || unscale_ != 0) return;
  for (std::size_t p = 0; p < parameters_.views().size(); ++p) {
    const ParameterViews& views = parameters_.views()[p];
    if (views.low_precision || views.variable.dim() != 2 || graph_.is_unused(p)) continue;
    model::offer_gradient_place(views.variable, slot_views_[slot_of_[p]]);
  }
}

at::Tensor GradientReducer::view_of(std::size_t slot) const {
  const GradientSlot& place = plan_.slots[slot];
  const at::Tensor& master = parameters_.views()[place.parameter].master;
  return current_.as_strided(master.sizes(), master.strides(), place.offset);
}

void GradientReducer::on_gradient(std::size_t parameter, const at::Tensor& variable) {
  const at::NoGradGuard no_grad;
  if (seen_[parameter]) {
    throw UsageError({{"LS-7001", parameters_.views()[parameter].name,
                       "got a second gradient in one micro-batch",
                       "run one backward per micro-batch: add the losses before backward"}});
  }
  if (graph_.is_unused(parameter)) return graph_.note_unexpected(parameter);
  seen_[parameter] = true;
  at::Tensor& gradient = variable.mutable_grad();
  store(gradient, slot_of_[parameter]);
  const ParameterViews& views = parameters_.views()[parameter];
  if (views.low_precision) {
    gradient.reset();
  } else {  // the user sees the bucket
    const std::size_t slot = slot_of_[parameter];
    gradient = slot_views_.empty() ? view_of(slot) : slot_views_[slot];
  }
  if (order_ == Order::unknown && last_leaf()) observed_.push_back(parameter);
  Bucket& bucket = buckets_[bucket_of_[parameter]];
  --bucket.left;
  if (!last_leaf()) return;
  if (bucket.left == 0) bucket.times.ready_ns = comm::monotonic_ns();
  start_ready_buckets();
}

/// Writes (first leaf, or ordered) or adds a gradient into its slot of the current flat buffer.
void GradientReducer::store(const at::Tensor& gradient, std::size_t slot) {
  const GradientSlot& place = plan_.slots[slot];
  const ParameterViews& views = parameters_.views()[place.parameter];
  float* into = current_.mutable_data_ptr<float>() + place.offset;
  const bool add = !options_.ordered && leaf_ > 0;
  if (has_sparse_rows(gradient, views.master)) return store_rows(gradient, place, add);
  if (unscale_ != 0) return store_scaled(gradient, place, add);
  const bool plain = gradient.scalar_type() == at::kFloat && gradient.layout() == at::kStrided &&
                     gradient.strides() == views.master.strides();
  if (plain && gradient.const_data_ptr<float>() == into) return;  // written there at once
  if (plain && add) {
    optim::add_into(into, gradient.const_data_ptr<float>(), place.count);
  } else if (plain) {
    std::memcpy(into, gradient.const_data_ptr<float>(), static_cast<std::size_t>(place.count) * 4);
  } else {
    const at::Tensor view = view_of(slot);
    const at::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
    add ? view.add_(dense) : view.copy_(dense);
  }
}

void GradientReducer::store_rows(const at::Tensor& gradient, const GradientSlot& place, bool add) {
  float* into = current_.mutable_data_ptr<float>() + place.offset;
  if (!add) std::fill_n(into, place.count, 0.0F);
  const bool finite = add_rows({into, static_cast<std::size_t>(place.count)}, gradient,
                               unscale_ != 0 ? unscale_ : 1.0F);
  if (finite || unscale_ == 0) return;
  note_not_finite({NotFiniteAt::Kind::gradient, static_cast<std::int64_t>(place.parameter)});
}

/// One pass: widens, divides by the scale and looks for what is not finite.
void GradientReducer::store_scaled(const at::Tensor& gradient, const GradientSlot& place,
                                   bool add) {
  const ParameterViews& views = parameters_.views()[place.parameter];
  at::Tensor source = gradient.is_sparse() ? gradient.to_dense() : gradient;
  const bool is_fp16 = source.scalar_type() == at::kHalf;
  if (!is_fp16) source = source.to(at::kFloat);
  if (source.strides() != views.master.strides()) {
    source = at::empty_strided(views.master.sizes(), views.master.strides(), source.options())
                 .copy_(source);
  }
  float* into = current_.mutable_data_ptr<float>() + place.offset;
  const void* from = source.const_data_ptr();
  const bool finite = is_fp16 ? optim::take_gradient(into, static_cast<const Fp16Bits*>(from),
                                                     place.count, unscale_, add)
                              : optim::take_gradient(into, static_cast<const float*>(from),
                                                     place.count, unscale_, add);
  if (finite) return;
  note_not_finite({NotFiniteAt::Kind::gradient, static_cast<std::int64_t>(place.parameter)});
}

void GradientReducer::note_not_finite(const NotFiniteAt& where) {
  if (not_finite_.kind == NotFiniteAt::Kind::nowhere) not_finite_ = where;
}

void GradientReducer::end_leaf(double loss_sum, std::int64_t weight, const StepControl& control) {
  StepControl own = last_leaf() ? control : StepControl{};
  if (!leaf_is_closed_) {
    close_leaf(loss_sum, weight, own);
  } else if (last_leaf() && next_bucket_ < buckets_.size()) {
    control_.set_control(block(), group_.rank(), own);  // earlier leaves have set none of them
  }
  if (last_leaf()) {
    while (next_bucket_ < buckets_.size()) start_next();
    integer_work_ = buffers_.reduce_integers(group_);
    if (order_ == Order::unknown) order_ = Order::observed;
  } else if (options_.ordered) {
    keep_partial_sum();
  }
  ++leaf_;
}

/// All of the leaf but what is sent. When it throws it may be called again.
void GradientReducer::close_leaf(double loss_sum, std::int64_t weight, StepControl own) {
  model::withdraw_gradient_places();
  const bool add = !options_.ordered && leaf_ > 0;
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (seen_[p] || add || graph_.is_unused(p)) continue;
    const GradientSlot& slot = plan_.slots[slot_of_[p]];
    std::fill_n(current_.mutable_data_ptr<float>() + slot.offset, slot.count, 0.0F);
  }
  buffers_.end_micro_batch();
  graph_.end_leaf(seen_, weight > 0);
  if (last_leaf()) {
    own.not_finite = not_finite_;
    own.breach = graph_.breach();
  }
  close_leaf_block(loss_sum, weight, own);
  leaf_is_closed_ = true;
  if (!last_leaf()) return;
  const std::int64_t now_ns = comm::monotonic_ns();
  for (Bucket& bucket : buckets_) {
    bucket.left = 0;
    if (bucket.times.ready_ns == 0) bucket.times.ready_ns = now_ns;
  }
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
  while (next_bucket_ + 1 < buckets_.size() && buckets_[next_bucket_].left == 0) start_next();
}

/// Where it throws the bucket stays the next one, so that no rank passes over a collective.
void GradientReducer::start_next() {
  Bucket& bucket = buckets_[next_bucket_];
  const BucketRange range = range_of(next_bucket_);
  if (!std::exchange(bucket.is_whole, true)) fold_pending(range);
  if (exchange_ != nullptr) {
    if (summed_) {
      exchange_->start(next_bucket_, current_.narrow(0, range.offset, range.count));
    } else if (next_bucket_ + 1 == buckets_.size()) {
      start_control();
    }
    bucket.times.issued_ns = comm::monotonic_ns();
  }
  ++next_bucket_;
}

void GradientReducer::start_control() {
  own_block_.assign(block().begin(), block().end());
  const comm::Purpose purpose("the numbers of a step on its own");
  control_work_ =
      group_.all_reduce(current_.narrow(0, plan_.total, control_.size()), comm::ReduceOp::sum);
}

void GradientReducer::finish_buckets() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    BucketTimes& times = buckets_[b].times;
    const std::int64_t begin_ns = comm::monotonic_ns();
    if (exchange_ != nullptr && summed_) times.done_ns = exchange_->finish(b);
    times.end_wait(begin_ns, comm::monotonic_ns());
  }
  if (control_work_ != nullptr) std::exchange(control_work_, nullptr)->wait();
  if (integer_work_ != nullptr) std::exchange(integer_work_, nullptr)->wait();
}

StepSums GradientReducer::wait() {
  LOCKSTEP_CHECK(leaf_ == options_.leaves, "a step ended before all of its micro-batches");
  finish_buckets();
  for (at::Tensor& sum : pending_) {
    if (sum.defined()) spare_.push_back(std::exchange(sum, at::Tensor()));
  }
  const std::int64_t terms = options_.leaves * group_.size();
  StepSums sums = control_.sums(block());
  if (exchange_ != nullptr && summed_) sums.overflown_bucket = exchange_->overflown();
  gradient_weight_ = summed_ ? sums.weight : control_.sums(own_block_).weight;
  if (sums.abandon_votes == 0 && sums.memory_votes == 0) end_graph(sums);
  buffers_.finish_step(control_.buffers(block()), terms);
  return sums;
}

void GradientReducer::drop_step() {
  buffers_.begin_micro_batch();
  forget_errors();
}

void GradientReducer::forget_errors() {
  if (exchange_ != nullptr) exchange_->drop_step();
}

void GradientReducer::end_graph(const StepSums& sums) {
  const std::span<const float> numbers = std::as_const(*this).block();
  const GraphSums graph{control_.uses(numbers), control_.breaches(numbers), sums.micro_batches,
                        sums.micro_batches == options_.leaves * group_.size()};
  const auto is_breach = [](float breach) { return breach != 0; };
  if (std::any_of(graph.breaches.begin(), graph.breaches.end(), is_breach)) {
    buffers_.begin_micro_batch();  // the step does not count
  }
  if (graph_.end_step(group_, graph)) count_expected();
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

const std::string& GradientReducer::bucket_name(std::size_t bucket) const {
  return buckets_.at(bucket).name;
}

std::int64_t GradientReducer::bucket_bytes(std::size_t bucket) const {
  return range_of(bucket).count * static_cast<std::int64_t>(sizeof(float));
}

const BucketTimes& GradientReducer::bucket_times(std::size_t bucket) const {
  return buckets_.at(bucket).times;
}

bool GradientReducer::used(std::size_t parameter) const {
  return control_.used(summed_ ? block() : std::span<const float>(own_block_), parameter);
}

}  // namespace lockstep::parallel
